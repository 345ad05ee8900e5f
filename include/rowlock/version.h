/* rowlock/version.h - the version of the library these headers belong to. */
#ifndef ROWLOCK_VERSION_H
#define ROWLOCK_VERSION_H

#define ROWLOCK_VERSION_MAJOR  0
#define ROWLOCK_VERSION_MINOR  1
#define ROWLOCK_VERSION_PATCH  0
#define ROWLOCK_VERSION_STRING "0.1.0"

#endif
