/* An index of the priority of each CPU: for each level a count of its CPUs and their set. Each thread is a CPU that enters a
 * real-time level, leaves it, and searches for the CPU with the least important work.
 *
 * LAYOUT 0: count and mask side by side, four levels to a line; 1: the mask on a separate line. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#ifndef LAYOUT
#define LAYOUT 0
#endif
#ifndef THREADS
#define THREADS 64
#endif
#ifndef ROUNDS
#define ROUNDS 200
#endif
#define LEVELS 102
#define WORDS ((THREADS + 63) / 64)
/* As many as an instance may run on. */
#define GROUP 8
#if LAYOUT == 1
#define OWN_LINE _Alignas(64)
#else
#define OWN_LINE
#endif

struct vec {
  _Atomic int count;
  OWN_LINE _Atomic unsigned long *mask;
};

static _Alignas(64) struct vec vecs[LEVELS];
static pthread_barrier_t all;

/* Set the new level first, so that a search never misses a CPU that is being raised. */
static void set(size_t cpu, int old, int new) {
  unsigned long bit = 1ul << cpu % 64;
  atomic_fetch_or(&vecs[new].mask[cpu / 64], bit);
  atomic_fetch_add(&vecs[new].count, 1);
  atomic_fetch_sub(&vecs[old].count, 1);
  atomic_fetch_and(&vecs[old].mask[cpu / 64], ~bit);
}

static int find(size_t cpu, int below) {
  unsigned long allowed = 0xfful << cpu / GROUP * GROUP % 64;
  for (int level = 0; level < below; level++) {
    if (vecs[level].count == 0) continue;
    if (vecs[level].mask[cpu / 64] & allowed) return level;
  }
  return -1;
}

static void *runs(void *at) {
  size_t cpu = (size_t)at;
  long found = 0;
  pthread_barrier_wait(&all);
  for (int i = 0; i < ROUNDS; i++) {
    found += find(cpu, 100);
    set(cpu, 1, 100);
    found += find(cpu, 100);
    set(cpu, 100, 1);
  }
  return (void *)found;
}

int main(void) {
  for (size_t i = 0; i < LEVELS; i++) vecs[i].mask = aligned_alloc(64, (WORDS * 8 + 63) / 64 * 64);
  for (size_t i = 0; i < LEVELS; i++)
    for (size_t word = 0; word < WORDS; word++) vecs[i].mask[word] = i == 1 ? ~0ul : 0;
  vecs[1].count = THREADS;
  pthread_barrier_init(&all, NULL, THREADS);
  static pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, runs, (void *)i);
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  return vecs[1].count == THREADS && vecs[100].count == 0 ? 0 : 1;
}
