/* A slot of a line's length for each thread, at the begin of a line by luck; and the same by its type. */
#include <pthread.h>
#include <stdlib.h>

#define THREADS 4

struct slot {
  volatile long first;
  char rest[48];
  volatile long last;
};

static struct own {
  _Alignas(64) struct slot slot;
} aligned[THREADS];
static struct slot *slots;

static void *work(void *at) {
  struct slot *mine = &slots[(size_t)at], *other = &aligned[(size_t)at].slot;
  for (int i = 0; i < 5000; i++) {
    mine->first += 1;
    mine->last += 1;
    other->first += 1;
    other->last += 1;
  }
  return NULL;
}

int main(void) {
  slots = aligned_alloc(128, THREADS * sizeof *slots);
  for (int i = 0; i < THREADS; i++) slots[i] = (struct slot){0};
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  long sum = 0;
  for (int i = 0; i < THREADS; i++) sum += slots[i].first + slots[i].last + aligned[i].slot.first + aligned[i].slot.last;
  return sum == 4l * THREADS * 5000 ? 0 : 1;
}
