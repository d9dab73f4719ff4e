/* A struct with a field that belongs to an interface, a union, and a last field that extends to the end of its memory. */
#include <pthread.h>
#include <stdlib.h>

struct journal {
  long magic;
  volatile long taken;
  volatile long given;
  union {
    long words;
    struct {
      int low, high;
    } halves;
  } as;
  char text[];
};

static void *take(void *at) {
  struct journal *journal = at;
  for (int i = 0; i < 10000; i++)
    if (journal->magic != 0 && journal->text[i % 64] == 0) journal->taken += 1;
  return NULL;
}

static void *give(void *at) {
  struct journal *journal = at;
  for (int i = 0; i < 10000; i++)
    if (journal->as.words == 0) journal->given += 1;
  return NULL;
}

int main(void) {
  struct journal *journal = aligned_alloc(64, sizeof *journal + 96);
  journal->magic = 1;
  journal->taken = journal->given = journal->as.words = 0;
  for (int i = 0; i < 96; i++) journal->text[i] = 0;
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, take, journal);
  pthread_create(&threads[1], NULL, give, journal);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return journal->taken == 10000 && journal->given == 10000 ? 0 : 1;
}
