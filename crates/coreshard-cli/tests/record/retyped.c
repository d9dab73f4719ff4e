/* Memory that is one thing first and another one then: both have words that one function changes, and threads fight for those
 * of the second alone. */
#include <pthread.h>
#include <stdlib.h>

enum { ROUNDS = 20000 };

struct parcel {
  long weight, price;
  char label[48];
};

struct gauge {
  long left, right, limit;
  char unit[40];
};

static pthread_barrier_t both;

__attribute__((noinline)) static void raise(volatile long *at) { ++*at; }

__attribute__((noinline)) static struct parcel *pack(void) {
  struct parcel *parcel = malloc(sizeof(struct parcel));
  return parcel;
}

__attribute__((noinline)) static struct gauge *mount(void) {
  struct gauge *gauge = malloc(sizeof(struct gauge));
  return gauge;
}

static struct gauge *gauge;

static void *measure(void *argument) {
  volatile long *at = argument ? &gauge->left : &gauge->right;
  pthread_barrier_wait(&both);
  for (int i = 0; i < ROUNDS; i++) raise(at);
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  pthread_barrier_init(&both, NULL, 2);
  struct parcel *parcel = pack();
  for (int i = 0; i < 100; i++) {
    raise(&parcel->weight);
    raise(&parcel->price);
  }
  long first = (long)parcel;
  free(parcel);
  gauge = mount();
  int is_same = first == (long)gauge;
  for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, measure, (void *)i);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return is_same ? 7 : 8;
}
