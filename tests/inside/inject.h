/*
 * inside/inject.h - makes the n-th thing fail that the library asks for: memory, a descriptor or a
 * thread, an exchange with the server. It stands in the test program in place of the C library's
 * own functions, so it sees the library's calls and those of libmariadb and libuuid on its behalf.
 *
 * "Ours" is what the test's thread does between inject_begin() and inject_end(), and all that
 * the threads do which were started by one of ours. Only that is counted, failed and accounted for.
 */
#ifndef RL_INJECT_H
#define RL_INJECT_H

#include <stdbool.h>
#include <stddef.h>

typedef enum inject_kind {
    INJECT_MEMORY,        /* an allocation: NULL, ENOMEM */
    INJECT_SYSTEM,        /* a thread, a descriptor, a page, a mutex: EAGAIN, EMFILE, ENOMEM */
    INJECT_CALL_LOST,     /* the connection ends before the command is sent */
    INJECT_REPLY_LOST,    /* the server has answered; the connection ends before the reply */
    INJECT_SERVER_ERROR,  /* the server answers this command with an error, and nothing else */
    INJECT_NO_CONNECTION, /* a connect is refused */
    INJECT_TOO_MANY,      /* the server greets with error 1040 and hangs up */
} inject_kind;

typedef enum inject_side {
    INJECT_CALLER, /* what the test's own thread asks for */
    INJECT_BEHIND, /* what the library's threads ask for */
} inject_side;

void inject_begin(void);
void inject_end(void); /* disarms, too; may be called twice */
/* Something of the test's own in between. */
void inject_pause(void);
void inject_resume(void);

/* The n-th (from 1) from now on that side fails, and only that. */
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
size_t inject_blocks(void);
size_t inject_descriptors(void);
size_t inject_threads(void);
/* Are all of these blocks Connector/C's? */
bool inject_blocks_of_connector(void);
/* What is in inject_blocks(), for people. */
void inject_list_blocks(char *text, size_t size);

/* In a handler of SIGSEGV: where it happened. True: in Connector/C, or in what it called. */
bool inject_crash_place(char *text, size_t size);

#endif
