/* How long a thread that sleeps waits for its processor once it is due, beside a thread that works there in pieces.
 *
 *     wake SLICE PIECE REST COUNT
 *
 * SLICE is in microseconds what the sleeping thread asks for with sched_setattr(2), 0 for the kernel's own.  The other
 * thread of the same processor works for PIECE microseconds, sleeps for REST, and so on.  COUNT times the first one
 * sleeps for 0.2 ms and works for 0.06 ms.  Printed are the median, p90 and p99 of its waits, in microseconds.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLEEP 200000ull
#define WORK 60000ull

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static volatile int over;
static uint64_t piece, rest;

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void sleep_until(uint64_t due)
{
    struct timespec at = {due / 1000000000ull, due % 1000000000ull};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void work(uint64_t nanoseconds)
{
    for (uint64_t end = now() + nanoseconds; now() < end;)
        ;
}

static void *other(void *nothing)
{
    while (!over) {
        work(piece);
        sleep_until(now() + rest);
    }
    return nothing;
}

static int compare(const void *one, const void *another)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)another;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "wake: write: wake SLICE PIECE REST COUNT\n");
        return 2;
    }
    uint64_t slice = atol(argv[1]) * 1000ull;
    long count = atol(argv[4]);
    piece = atol(argv[2]) * 1000ull, rest = atol(argv[3]) * 1000ull;
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    int cpu = CPU_SETSIZE;
    while (!CPU_ISSET(--cpu, &cpus))
        ;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    prctl(PR_SET_TIMERSLACK, 1);
    pthread_t thread;
    uint64_t *waits = calloc(count, sizeof *waits);
    if (count < 1 || !waits || pthread_create(&thread, NULL, other, NULL)) {
        fprintf(stderr, "wake: cannot start\n");
        return 1;
    }
    struct attributes asked = {.size = sizeof asked, .runtime = slice};
    if (slice && syscall(SYS_sched_setattr, 0, &asked, 0)) {
        perror("wake: sched_setattr");
        return 1;
    }
    for (long i = 0; i < count; i++) {
        uint64_t due = now() + SLEEP;
        sleep_until(due);
        waits[i] = now() - due;
        work(WORK);
    }
    over = 1;
    pthread_join(thread, NULL);
    qsort(waits, count, sizeof *waits, compare);
    printf("%.1f %.1f %.1f\n", waits[count / 2] / 1e3, waits[count * 9 / 10] / 1e3, waits[count * 99 / 100] / 1e3);
    return 0;
}
