/* The recorder's window, and threads that work while it is open, for the loads beside this file. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_THREADS 1024
/* No-ops of 8 bytes that the recorder knows. */
#define OPEN_WINDOW() __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00,0x01,0xde,0xc0,0x7a" ::: "memory")
#define CLOSE_WINDOW() __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00,0x00,0xde,0xc0,0x7a" ::: "memory")

/* The threads wait for it when they are prepared. */
static pthread_barrier_t begin;

/* Restricts the calling thread to some CPUs that follow one another. */
static inline void run_on(long first, long count, long cpus) {
  cpu_set_t *set = CPU_ALLOC((size_t)cpus);
  size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
  CPU_ZERO_S(bytes, set);
  for (long cpu = first; cpu < first + count && cpu < cpus; cpu++) CPU_SET_S((size_t)cpu, bytes, set);
  if (sched_setaffinity(0, bytes, set) != 0) perror("sched_setaffinity");
  CPU_FREE(set);
}

/* Starts one thread for each CPU with its number, and opens the window from when all wait until all have ended. Returns how
 * many they are. */
static inline long run_in_window(void *(*body)(void *)) {
  static pthread_t threads[MOST_THREADS];
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  if (cpus > MOST_THREADS) cpus = MOST_THREADS;
  pthread_barrier_init(&begin, NULL, (unsigned)cpus + 1);
  for (long i = 0; i < cpus; i++)
    if (pthread_create(&threads[i], NULL, body, (void *)i) != 0) {
      perror("pthread_create");
      exit(1);
    }
  OPEN_WINDOW();
  pthread_barrier_wait(&begin);
  for (long i = 0; i < cpus; i++) pthread_join(threads[i], NULL);
  CLOSE_WINDOW();
  return cpus;
}
