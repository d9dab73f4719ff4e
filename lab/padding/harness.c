/* Two threads, each on its own CPU, that repeatedly call `bump` at the same time. Prints a line for each round without an
 * interruption: nanoseconds for one of `times` iterations, of the slower thread. With ALONE, the second thread does nothing.
 * Started with one round, it is a program to record, whose threads sleep until both are there: a replay obeys that.
 *
 * Usage: PROGRAM ROUNDS TIMES [ALONE] */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

void prepare(void);
void bump(int thread, long times);

static struct {
  _Alignas(128) _Atomic long arrived;
} gates[2];
static struct {
  _Alignas(128) double start, end;
  long switches;
} seen[2];
static pthread_barrier_t start;
static long rounds, times;
static int is_alone;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static long switches(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw + usage.ru_nvcsw;
}

static void meet(int thread, long round) {
  atomic_store(&gates[thread].arrived, round);
  while (atomic_load(&gates[1 - thread].arrived) < round) {
  }
}

static void *runs(void *at) {
  int thread = (int)(size_t)at;
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  for (int cpu = 0, left = thread; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all) && left-- == 0) CPU_SET(cpu, &one);
  if (CPU_COUNT(&one) == 1) sched_setaffinity(0, sizeof one, &one);
  for (long round = 1; round <= rounds; round++) {
    if (rounds > 1) meet(thread, 2 * round - 1);
    else pthread_barrier_wait(&start);
    long before = switches();
    seen[thread].start = now();
    bump(thread, is_alone && thread == 1 ? 0 : times);
    seen[thread].end = now();
    seen[thread].switches = switches() - before;
    if (rounds > 1) meet(thread, 2 * round);
    if (thread == 1 || rounds == 1) continue;
    double length = seen[0].end - seen[0].start, other = seen[1].end - seen[1].start;
    double apart = seen[0].start - seen[1].start;
    double longer = length > other ? length : other;
    if (seen[0].switches + seen[1].switches > 0 || apart * apart > longer * longer / 400) continue;
    printf("%.3f\n", longer / (double)times);
  }
  return NULL;
}

int main(int count, char **arguments) {
  rounds = count > 1 ? atol(arguments[1]) : 1;
  times = count > 2 ? atol(arguments[2]) : 100000;
  is_alone = count > 3;
  prepare();
  pthread_barrier_init(&start, NULL, 2);
  pthread_t threads[2];
  for (size_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, runs, (void *)i);
  for (size_t i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
