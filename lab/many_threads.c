/* Many threads that mostly use their own memory, and sometimes five shared objects, each half as often as the one before it.
 * The number of rounds determines the number of accesses: about 70 a round.
 *
 * Usage: PROGRAM THREADS ROUNDS */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define OWN 4096

struct counters {
  volatile long by_thread[8];
};

static _Alignas(64) struct counters first, second, third;
static _Alignas(64) _Atomic long fourth;
static _Alignas(64) struct guarded {
  pthread_mutex_t lock;
  long value;
} fifth = {PTHREAD_MUTEX_INITIALIZER, 0};
static _Alignas(64) long rounds;
/* All threads begin and end together, so that no thread reuses the memory of another. */
static _Alignas(64) pthread_barrier_t together;

static void *work(void *at) {
  size_t thread = (size_t)at, mine = thread % 8;
  volatile long *own = calloc(OWN, sizeof *own);
  pthread_barrier_wait(&together);
  for (long round = 0; round < rounds; round++) {
    for (int i = 0; i < 32; i++) own[(round * 32 + i) % OWN] += i;
    first.by_thread[mine] += 1;
    if (round % 2 == 0) second.by_thread[mine] += 1;
    if (round % 4 == 0) third.by_thread[mine] += 1;
    if (round % 16 == 0) atomic_fetch_add(&fourth, 1);
    if (round % 64 == 0) {
      pthread_mutex_lock(&fifth.lock);
      fifth.value += 1;
      pthread_mutex_unlock(&fifth.lock);
    }
  }
  pthread_barrier_wait(&together);
  long sum = own[0];
  free((void *)own);
  return (void *)sum;
}

int main(int count, char **arguments) {
  size_t threads = count > 1 ? (size_t)atol(arguments[1]) : 64;
  rounds = count > 2 ? atol(arguments[2]) : 1000;
  pthread_t *all = calloc(threads, sizeof *all);
  pthread_barrier_init(&together, NULL, (unsigned)threads);
  for (size_t i = 0; i < threads; i++) pthread_create(&all[i], NULL, work, (void *)i);
  for (size_t i = 0; i < threads; i++) pthread_join(all[i], NULL);
  free(all);
  return fourth == (long)threads * ((rounds + 15) / 16) ? 0 : 1;
}
