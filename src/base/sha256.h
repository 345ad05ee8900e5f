/* base/sha256.h - the checksum of a file of any size (FIPS 180-4); for nothing secret. */
#ifndef RL_SHA256_H
#define RL_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct rl_sha256 {
    uint32_t state[8];
    uint64_t length;
    unsigned char block[64];
} rl_sha256;

rl_sha256 rl_sha256_begin(void);
void rl_sha256_add(rl_sha256 *sum, const void *data, size_t length);
/* 64 hexadecimal digits, of what was added so far; more may follow. */
void rl_sha256_hex(const rl_sha256 *sum, char hex[65]);

#endif
