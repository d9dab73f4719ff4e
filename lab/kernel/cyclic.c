/* FIFO threads that sleep to an absolute time and wake, each on one of eight neighbouring CPUs: the load of the priority
 * index. Usage: cyclic [PERIODS]. */
#include "window.h"

#include <time.h>

#define GROUP 8
#define PERIOD_NS 10000000L

static int periods = 20;

static void *cycles(void *word) {
  long number = (long)word;
  run_on(number / GROUP * GROUP, GROUP, sysconf(_SC_NPROCESSORS_ONLN));
  struct sched_param priority = {.sched_priority = 99};
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) != 0) perror("SCHED_FIFO");
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
  long threads = run_in_window(cycles);
  printf("%d periods of %ld threads\n", periods, threads);
  return 0;
}
