/*
 * inside/inject.h - makes the n-th request of the library fail: for memory, a descriptor or a
 * thread, or an exchange with the server. It replaces the C library's functions in the test
 * program, so it sees the library's calls and those of libmariadb and libuuid on its behalf.
 *
 * "Ours" are the calls of the test's thread between inject_begin() and inject_end(), and all calls
 * of threads that one of ours has started. Only these are counted and made to fail.
 */
#ifndef RL_INJECT_H
#define RL_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum inject_kind {
    INJECT_MEMORY,        /* an allocation: NULL, ENOMEM */
    INJECT_SYSTEM,        /* a thread, a descriptor, a page, a mutex: EAGAIN, EMFILE, ENOMEM */
    INJECT_CALL_LOST,     /* the connection ends before the command is sent */
    INJECT_REPLY_LOST,    /* the server has answered; the connection ends before the reply */
    INJECT_SERVER_ERROR,  /* the server answers this command with an error, and nothing else */
    INJECT_NO_CONNECTION, /* a connect is refused */
} inject_kind;

typedef enum inject_side {
    INJECT_CALLER, /* what the test's own thread asks for */
    INJECT_BEHIND, /* what the library's threads ask for */
} inject_side;

enum { INJECT_PLACES = 1 << 16, INJECT_MANY = 5000 };

/* What could fail. All zero in the beginning, and shared by the processes that look. */
typedef struct inject_places {
    uint64_t seen[INJECT_PLACES]; /* calls inside calls, as a number */
    unsigned passed;              /* as many things there were */
    unsigned chosen[INJECT_MANY]; /* which of them were new */
    unsigned count;
} inject_places;

/* `all`: each is chosen. */
void inject_look_at(inject_places *shared, bool all);

void inject_begin(void);
void inject_end(void); /* disarms, too; may be called twice */
/* Something of the test's own in between. */
void inject_pause(void);
void inject_resume(void);

/* The n-th (from 1) from now on that side fails, and only that; 0: nothing does, and it is noted
 * in the inject_places which of them were asked for at a place that was not in `seen` yet. */
void inject_arm(inject_kind kind, inject_side side, unsigned nth);
/* For INJECT_SERVER_ERROR. */
void inject_server_error(unsigned number, const char *sqlstate);
/* Nothing fails from now on; what happened is still to be asked for. */
void inject_disarm(void);
bool inject_fired(void);
/* Was it Connector/C that asked for it? */
bool inject_in_connector(void);
/* Where it fails is written there at once. */
void inject_tell_place(char *text, size_t size);

/* Of ours: blocks not freed, descriptors not closed, threads not ended. */
typedef struct inject_rest {
    size_t blocks;
    size_t descriptors;
    size_t threads;
} inject_rest;

inject_rest inject_left(void);
/* Are all of the blocks Connector/C's? */
bool inject_blocks_of_connector(void);
/* What they are, for people. */
void inject_list_blocks(char *text, size_t size);

/* In a handler of SIGSEGV: where it happened. True: in Connector/C, or in what it called. */
bool inject_crash_place(char *text, size_t size);

#endif
