/*
 * runs/history.h - the record of a run: lines of text, each appended with one write() to the file
 * of the process that saw the event, so that a SIGKILL loses at most the line in flight. A call is
 * written before it is made, its result after it.
 *
 *   <time> <who> <word> <key>=<value> ...
 *
 * time: microseconds of CLOCK_MONOTONIC, which all processes of a machine share. who: a number
 * that no other process of the run has; 0 is the driver. A value has no blank in it.
 *
 * Words of an actor (the lock is one name for its whole life)
 *   begin     name= mode=lease|row ttl=<us> [slots=<how many the name has>] [probe=0|1]
 *   acquire   wait=<us> [shared=0|1] [units=] [value=] (called; 0: a try; < 0: for ever. units:
 *                                                       how many slots; value: to publish)
 *   place     is=queue                                 (asks for a place in the queue, now)
 *   place     is=first                                 (has closed the lease for readers, and waits
 *                                                       for those that are left)
 *   slot      name=<NAME#i> token= owner=              (for each acquired slot; then `acquired`,
 *                                                       whose token is none of theirs)
 *   acquired  status= token= owner= fenced=0|1         (came back)
 *   upgrade   wait=<us>                                (a reader becomes the exclusive holder)
 *   upgraded  status= token= fenced=1
 *   downgrade, downgraded status= token= fenced=1      (an exclusive holder becomes a reader)
 *   checked   from=<us> status= remaining=<us>         (called at `from`, back at the line's time;
 *                                                       for all slots that it holds)
 *   write     kind=token|fence seq=                    (begun)
 *   wrote     seq= status=ok|refused|failed|unknown    (failed: not written; unknown: perhaps)
 *   release, released status=                          (closing the client counts, too)
 *   publish   value=                                   (an exclusive holder publishes another one)
 *   published status=
 *   observe, observed status= leads=0|1 token= value=  (asks who leads)
 *   quit                                               (ends without releasing)
 *   lost                                               (the callback)
 * ... at a latch or a barrier (begin mode=latch, mode=barrier members=)
 *   call      verb= ...          of a latch: get, set count=, down, done, join asked=<generation>
 *                                key=, leave asked=, wait asked= wait=, break; of a barrier: enter
 *                                wait=, leave asked= wait=, release asked=
 *   back      status= [generation= place= state=]      (NONE: of a transaction, rolled back)
 * ... of work once in a period, by the lease's holder or the process that began with that token
 *   call      verb= asked=<period> token= wait= ...  begin count=<most attempts>; job: the work and
 *                                its record as done, in one transaction; work; done, failed
 *   back      status= [place=<attempt> state=begun|done|used-up]
 * ... at the queue (begin mode=queue)
 *   put       mark= group= key= delay=<us> most=<attempts>   (an item, by its unique mark; several
 *                                before the one call that puts them)
 *   putid     mark= id=          (the id, of each)
 *   puts      status=            (came back; NONE: rolled back)
 *   take      wait=<us>
 *   took      id= token= attempt= mark=               (each item that was taken)
 *   taken     status=
 *   still     id= from=<us> status= remaining=<us>    (as checked)
 *   give      verb=done|job|retry|dead|release|close id= delay=<us>    (called, of each item; job:
 *                                the work and done, in one transaction)
 *   gave      id= status=        (came back, of each)
 * Words of the driver
 *   fault     kind=  [target=<who>]    from now on ...
 *   healed    kind=                    ... until now (at once, for faults without a duration)
 *   kill, stop  target=<who>           before the signal is sent
 *   continued target=<who>             after SIGCONT
 *   died      target=<who> status=     after it was reaped
 *   hung      target=<who>             did not end when it was told to; killed after this
 *   late      from=<us>                a thread that was ready to run then ran now
 *   row       from=<us> name= version= status= owner= remaining=<us>     (seen in the server;
 *             with status=reader it is one of the lock's readers)
 *   counted   from=<us> name= generation= status= count= broken= of= key=     (the latch's row, and
 *             one of its counts)
 *   written   id= name= token= owner= writer=<who> seq= kind=            (the table at the end)
 *   ledger    from=<us> name= period= state= token= attempts=
 *   worked    name= period= token= writer=<who> joined=0|1  (the work at the end; 1: of a job)
 *   item      from=<us> id= mark= state=waits|held|dead token= attempts= remaining=<us>
 *   items     from=<us>                the `item` lines before were all items
 *   jobwork   mark= token=             (the work at the end)
 *   end                                the run was recorded to its end
 */
#ifndef RUNS_HISTORY_H
#define RUNS_HISTORY_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct history {
    int fd;
    unsigned who;
} history;

int64_t history_now(void);
/* Appends to FOLDER/<who>; false: it cannot. Never closed: it ends with the process. */
bool history_open(history *h, const char *folder, unsigned who);
/* `words`: the word and what follows. Returns the time that the line bears. */
int64_t history_log(const history *h, const char *words, ...) __attribute__((format(printf, 2, 3)));

typedef struct event {
    int64_t at;
    unsigned who;
    char word[16];
    const char *rest; /* "key=value key=value", ends with a NUL */
} event;

typedef struct events {
    event *list; /* by time; lines of one process stay in their order */
    size_t count;
    char *text;
} events;

/* Every file of the folder. A last line without its end is left out; any other that is no line of
 * a history makes it false, and says which. */
bool history_read(events *all, const char *folder);
/* The same from a text, for tests; ownership of `text` (malloc) goes to `all`. */
bool history_parse(events *all, char *text);
void history_free(events *all);

bool event_is(const event *e, const char *word);
/* The value's bytes up to a blank or the end, "" where there is none; not ended with NUL. */
const char *event_value(const event *e, const char *key, size_t *length);
bool event_has(const event *e, const char *key, const char *value);
int64_t event_number(const event *e, const char *key);
uint64_t event_unsigned(const event *e, const char *key);
/* Cut to `size`. */
void event_copy(const event *e, const char *key, char *to, size_t size);

#endif
