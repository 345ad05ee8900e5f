#include "support/witness.h"

#include "support/support.h"

/* A delay of up to USUAL_MS does not count. */
enum { BEAT_MS = 10, WRITE_EVERY_MS = 40, USUAL_MS = 5, LATELY_MS = 10000, NOTES = 4096 };

typedef struct note {
    int64_t at_ms;
    int64_t late_ms;
} note;

typedef struct witness {
    void (*work)(struct witness *); /* usually takes at most USUAL_MS */
    pthread_mutex_t mutex;
    int64_t due_ms; /* of the present round */
    int64_t stood_ms;
    note notes[NOTES]; /* a ring */
    unsigned noted;
    pthread_t thread;
} witness;

static void be_woken(witness *this);
static void write_a_byte(witness *this);

enum { WITNESSES = 2 };
static witness witnesses[WITNESSES] = {{.work = be_woken, .mutex = PTHREAD_MUTEX_INITIALIZER},
                                       {.work = write_a_byte, .mutex = PTHREAD_MUTEX_INITIALIZER}};
static pid_t witnessed; /* the process that has the threads: a forked child has none */
static int file = -1;
static atomic_bool over;

static void due_at(witness *this, int64_t ms)
{
    pthread_mutex_lock(&this->mutex);
    this->due_ms = ms;
    pthread_mutex_unlock(&this->mutex);
}

static void be_woken(witness *this)
{
    due_at(this, ts_now_ms() + BEAT_MS);
    ts_pass_ms(BEAT_MS);
}

static void write_a_byte(witness *this)
{
    due_at(this, ts_now_ms());
    if (pwrite(file, "x", 1, 0) != 1 || fdatasync(file) != 0)
        abort();
}

static int64_t late(const witness *this)
{
    int64_t by = this->due_ms ? ts_now_ms() - this->due_ms : 0;
    return by > USUAL_MS ? by : 0;
}

static void *watch(void *arg)
{
    witness *this = arg;
    pthread_setname_np(pthread_self(), TS_WITNESS);
    while (!atomic_load(&over)) {
        this->work(this);
        pthread_mutex_lock(&this->mutex);
        int64_t by = late(this);
        this->due_ms = 0;
        if (by > 0) {
            this->stood_ms += by;
            this->notes[this->noted++ % NOTES] = (note){ts_now_ms(), by};
        }
        pthread_mutex_unlock(&this->mutex);
        if (this->work == write_a_byte)
            ts_pass_ms(WRITE_EVERY_MS);
    }
    return NULL;
}

void ts_witness(void)
{
    if (witnessed == getpid())
        return;
    const char *folder = getenv("TMPDIR");
    char path[300];
    snprintf(path, sizeof path, "%s/rowlock-witness.XXXXXX", folder && *folder ? folder : "/tmp");
    file = mkstemp(path);
    assert_true(file >= 0);
    unlink(path);
    witnessed = getpid();
    ts_witness_resume();
}

void ts_witness_pause(void)
{
    if (witnessed != getpid())
        return;
    atomic_store(&over, true);
    for (unsigned i = 0; i < WITNESSES; i++)
        pthread_join(witnesses[i].thread, NULL);
}

void ts_witness_resume(void)
{
    if (witnessed != getpid())
        return;
    atomic_store(&over, false);
    for (unsigned i = 0; i < WITNESSES; i++)
        assert_int_equal(pthread_create(&witnesses[i].thread, NULL, watch, &witnesses[i]), 0);
}

static int64_t lately(const witness *this)
{
    int64_t sum = late(this);
    int64_t since = ts_now_ms() - LATELY_MS;
    for (unsigned i = 0; i < NOTES; i++)
        if (this->notes[i].at_ms >= since)
            sum += this->notes[i].late_ms;
    return sum;
}

static int64_t ever(const witness *this)
{
    return this->stood_ms + late(this);
}

static int64_t asked(int64_t (*what)(const witness *))
{
    int64_t sum = 0;
    for (unsigned i = 0; i < WITNESSES && witnessed == getpid(); i++) {
        pthread_mutex_lock(&witnesses[i].mutex);
        sum += what(&witnesses[i]);
        pthread_mutex_unlock(&witnesses[i].mutex);
    }
    return sum;
}

int64_t ts_stood_ms(void)
{
    return asked(ever);
}

/* `some`: at least one thread waited (Documentation/accounting/psi.rst of the kernel). */
static int64_t waited_for_a_processor_ms(void)
{
    int64_t total_us = 0;
    FILE *in = fopen("/proc/pressure/cpu", "r");
    if (!in)
        return 0;
    (void)!fscanf(in, "some avg10=%*s avg60=%*s avg300=%*s total=%" SCNd64, &total_us);
    fclose(in);
    return total_us / 1000;
}

int64_t ts_strain_ms(void)
{
    return ts_stood_ms() + waited_for_a_processor_ms();
}

int64_t ts_stood_lately_ms(void)
{
    return asked(lately);
}
