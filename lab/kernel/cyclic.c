/* FIFO threads that sleep to an absolute time and wake, each on one of eight neighbouring CPUs: the load of the priority
 * index. Usage: cyclic [PERIODS]. The recorder's window is open while they run. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 1024
#define GROUP 8
#define PERIOD_NS 10000000L
#define OPEN_WINDOW() __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00,0x01,0xde,0xc0,0x7a" ::: "memory")
#define CLOSE_WINDOW() __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00,0x00,0xde,0xc0,0x7a" ::: "memory")

static int periods = 20;
static pthread_barrier_t begin;

static void *cycles(void *word) {
  long number = (long)word;
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t *set = CPU_ALLOC((size_t)cpus);
  size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
  CPU_ZERO_S(bytes, set);
  long first = number / GROUP * GROUP;
  for (long cpu = first; cpu < first + GROUP && cpu < cpus; cpu++) CPU_SET_S((size_t)cpu, bytes, set);
  struct sched_param priority = {.sched_priority = 99};
  if (sched_setaffinity(0, bytes, set) != 0) perror("sched_setaffinity");
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) != 0) perror("SCHED_FIFO");
  CPU_FREE(set);
  pthread_barrier_wait(&begin);
  struct timespec next;
  clock_gettime(CLOCK_MONOTONIC, &next);
  for (int period = 0; period < periods; period++) {
    next.tv_nsec += PERIOD_NS;
    if (next.tv_nsec >= 1000000000L) {
      next.tv_sec++;
      next.tv_nsec -= 1000000000L;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
  }
  return NULL;
}

int main(int count, char **words) {
  if (count > 1) periods = atoi(words[1]);
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  pthread_t threads[MOST_THREADS];
  if (cpus > MOST_THREADS) cpus = MOST_THREADS;
  pthread_barrier_init(&begin, NULL, (unsigned)cpus + 1);
  for (long i = 0; i < cpus; i++)
    if (pthread_create(&threads[i], NULL, cycles, (void *)i) != 0) {
      perror("pthread_create");
      return 1;
    }
  OPEN_WINDOW();
  pthread_barrier_wait(&begin);
  for (long i = 0; i < cpus; i++) pthread_join(threads[i], NULL);
  CLOSE_WINDOW();
  printf("%d periods of %ld threads\n", periods, cpus);
  return 0;
}
