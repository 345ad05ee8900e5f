/*
 * One process of bench/queue.py, which talks to it in lines.
 *
 *   rowlock-queue-client SYSTEM AT prepare
 *   rowlock-queue-client SYSTEM AT put BATCH COUNT
 *   rowlock-queue-client SYSTEM AT pace COUNT GAP_MS DELAY_MS    one at a time, each ready DELAY_MS
 * later rowlock-queue-client SYSTEM AT work BATCH
 *
 * It says "ready", waits for a line, and begins. `work` says "count JOBS" now and then, until
 * stdin ends. The last line is "end JOBS FIRST_NS LAST_NS CPU_US P50_US P99_US MOST_US": when the
 * first job was begun and the last one was done, by CLOCK_MONOTONIC, and how late they started.
 */
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "measure.h"
#include "queue_client.h"

enum { REPORT_NS = 20000000 };

void queue_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

static int64_t cpu_us(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return ((int64_t)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
           used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

static int64_t cpu_before;
static measure_histogram late;
static int64_t latest_ns;
static int64_t first_ns;

static void begin(void)
{
    char line[20];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(0);
    cpu_before = cpu_us();
    first_ns = measure_now_ns();
}

static void end(uint64_t jobs, int64_t last_ns)
{
    printf("end %llu %lld %lld %lld %.0f %.0f %.0f\n", (unsigned long long)jobs,
           (long long)first_ns, (long long)last_ns, (long long)(cpu_us() - cpu_before),
           measure_histogram_at(&late, 0.5) / 1000, measure_histogram_at(&late, 0.99) / 1000,
           (double)latest_ns / 1000);
}

static void fill(char payload[QUEUE_PAYLOAD], int64_t due_ns)
{
    char text[24];
    memset(payload, 'x', QUEUE_PAYLOAD);
    int length = snprintf(text, sizeof text, "%lld ", (long long)due_ns);
    memcpy(payload, text, (size_t)length);
}

static void put(const queue_system *s, void *session, unsigned batch, uint64_t count)
{
    char payloads[QUEUE_BATCH][QUEUE_PAYLOAD];
    begin();
    for (uint64_t i = 0; i < count; i += batch) {
        const int64_t now = measure_now_ns();
        for (unsigned j = 0; j < batch; j++)
            fill(payloads[j], now);
        s->put(session, payloads);
    }
    end(count, measure_now_ns());
}

static void pace(const queue_system *s, void *session, uint64_t count, int64_t gap_ms,
                 int64_t delay_ms)
{
    char payload[QUEUE_PAYLOAD];
    begin();
    for (uint64_t i = 0; i < count; i++) {
        nanosleep(&(struct timespec){.tv_sec = gap_ms / 1000, .tv_nsec = gap_ms % 1000 * 1000000},
                  NULL);
        fill(payload, measure_now_ns() + delay_ms * 1000000);
        s->put_later(session, payload, delay_ms);
    }
    end(count, measure_now_ns());
}

static bool told_to_stop(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, 0) == 1;
}

static void note_start(const queue_job *job)
{
    const int64_t was = measure_now_ns() - strtoll(job->payload, NULL, 10);
    measure_histogram_add(&late, was > 0 ? was : 0);
    latest_ns = was > latest_ns ? was : latest_ns;
}

static void work(const queue_system *s, void *session)
{
    queue_job jobs[QUEUE_BATCH];
    uint64_t done = 0;
    uint64_t told = 0;
    int64_t last = 0;
    int64_t told_at = 0;
    begin();
    for (;;) {
        const unsigned count = s->take(session, jobs);
        if (count > 0 && done == 0)
            first_ns = measure_now_ns();
        for (unsigned i = 0; i < count; i++)
            note_start(&jobs[i]);
        if (count > 0) {
            s->done(session);
            last = measure_now_ns();
        }
        done += count;
        const int64_t now = measure_now_ns();
        if (count > 0 && now - told_at < REPORT_NS)
            continue;
        if (told != done) {
            printf("count %llu\n", (unsigned long long)done);
            fflush(stdout);
        }
        told = done;
        told_at = now;
        if (told_to_stop())
            break;
    }
    end(done, last);
}

int main(int argc, char **argv)
{
    queue_system s;
    if (argc < 4 || (!queue_raw_find(argv[1], &s) && !queue_rowlock_find(argv[1], &s)))
        return 64;
    const char *role = argv[3];
    if (strcmp(role, "prepare") == 0) {
        s.prepare(argv[2], s.data);
        return 0;
    }
    const bool paced = strcmp(role, "pace") == 0;
    const unsigned batch = paced || argc < 5 ? 1 : (unsigned)strtoul(argv[4], NULL, 10);
    if (batch < 1 || batch > QUEUE_BATCH)
        return 64;
    void *session = s.open(argv[2], s.data, batch);
    if (strcmp(role, "put") == 0 && argc == 6)
        put(&s, session, batch, strtoull(argv[5], NULL, 10));
    else if (paced && argc == 7 && s.put_later)
        pace(&s, session, strtoull(argv[4], NULL, 10), strtoll(argv[5], NULL, 10),
             strtoll(argv[6], NULL, 10));
    else if (strcmp(role, "work") == 0 && argc == 5)
        work(&s, session);
    else
        return 64;
    s.close(session);
    return 0;
}
