/* Ways to share: one counter of all threads, a lock with the data that it guards, an array with one element per thread, and
 * data that all threads read and one thread sometimes writes. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

static _Alignas(64) _Atomic long total;
static _Alignas(64) struct account {
  pthread_mutex_t lock;
  long balance;
} account = {PTHREAD_MUTEX_INITIALIZER, 0};
static _Alignas(64) volatile long hits[8];
static _Alignas(64) struct settings {
  volatile long limit;
  volatile long burst;
} settings;

static void *work(void *at) {
  for (int i = 0; i < 10000; i++) {
    atomic_fetch_add(&total, 1);
    pthread_mutex_lock(&account.lock);
    account.balance += 1;
    pthread_mutex_unlock(&account.lock);
    hits[(size_t)at] += 1;
    if (settings.limit < 0) return NULL;
    if (at == NULL && i % 500 == 0) settings.limit = i;
  }
  return NULL;
}

int main(void) {
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (size_t i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  return total == 40000 && account.balance == 40000 && hits[3] == 10000 ? 0 : 1;
}
