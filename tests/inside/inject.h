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

/* The requests that could fail. All zero at first, and shared by the processes that record them. */
typedef struct inject_places {
    uint64_t seen[INJECT_PLACES]; /* hashes of places */
    unsigned passed;              /* the number of requests */
    unsigned chosen[INJECT_MANY]; /* the requests at a new place, by number */
    unsigned count;
} inject_places;

/* `all`: chooses each request, not only those at new places. */
void inject_look_at(inject_places *shared, bool all);

void inject_begin(void);
void inject_end(void); /* also disarms; may be called twice */
/* Around the test's own calls in between. */
void inject_pause(void);
void inject_resume(void);

/* The n-th request (from 1) from now on, on that side, fails, and no other. 0: none fails, and the
 * inject_places get the requests from places that are not in `seen` yet. */
void inject_arm(inject_kind kind, inject_side side, unsigned nth);
/* For INJECT_SERVER_ERROR. */
void inject_server_error(unsigned number, const char *sqlstate);
/* No request fails from now on; what happened can still be asked for. */
void inject_disarm(void);
bool inject_fired(void);
/* True if Connector/C made the request that failed. */
bool inject_in_connector(void);
/* `text` gets the place at the moment of the failure. */
void inject_tell_place(char *text, size_t size);

/* What is left of ours: blocks not freed, descriptors not closed, threads not ended. */
typedef struct inject_rest {
    size_t blocks;
    size_t descriptors;
    size_t threads;
} inject_rest;

inject_rest inject_left(void);
/* True if Connector/C allocated all the blocks that are left. */
bool inject_blocks_of_connector(void);
/* Describes the blocks, for the report. */
void inject_list_blocks(char *text, size_t size);

/* In a signal handler: describes where the crash was; true if it was in Connector/C, or in a C
 * library function that it called. */
bool inject_crash_place(char *text, size_t size);

#endif
