/* Requests of several devices of one host. A device counts its issued and its completed requests; the host counts active
 * requests, beside its limit. A request is issued on one CPU and completed on another.
 *
 * LAYOUT 0: the counters side by side, as in the struct; 1: each counter on a separate line; 2: a counter for each thread, and
 * no count in the host. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#ifndef LAYOUT
#define LAYOUT 0
#endif
#ifndef REQUESTS
#define REQUESTS 1000
#endif
#define DEVICES 4
#define JOBS 4
#define THREADS (2 * DEVICES * JOBS)
#if LAYOUT == 1
#define OWN_LINE _Alignas(64)
#else
#define OWN_LINE
#endif

struct device {
  void *queue;
  long timeout;
  OWN_LINE _Atomic long issued;
  OWN_LINE _Atomic long done;
};

struct host {
  OWN_LINE _Atomic long active;
  OWN_LINE volatile long limit;
};

static struct device *devices[DEVICES];
static _Alignas(64) struct host host;
static struct {
  _Alignas(64) _Atomic long issued, done;
} each[THREADS];

static void count(_Atomic long *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

static void submit(struct device *device, size_t thread) {
  if (device->timeout < 0) abort();
  (void)thread;
#if LAYOUT == 2
  count(&each[thread].issued);
#else
  if (atomic_fetch_add(&host.active, 1) > host.limit) abort();
  count(&device->issued);
#endif
}

static void complete(struct device *device, size_t thread) {
  if (device->timeout < 0) abort();
  (void)thread;
#if LAYOUT == 2
  count(&each[thread].done);
#else
  count(&device->done);
  atomic_fetch_sub(&host.active, 1);
#endif
}

static void *issues(void *at) {
  size_t thread = (size_t)at;
  for (int i = 0; i < REQUESTS; i++) submit(devices[thread % DEVICES], thread);
  return NULL;
}

static void *completes(void *at) {
  size_t thread = (size_t)at;
  for (int i = 0; i < REQUESTS; i++) complete(devices[thread % DEVICES], thread);
  return NULL;
}

int main(void) {
  host.limit = 1l << 40;
  for (size_t i = 0; i < DEVICES; i++) {
    devices[i] = aligned_alloc(64, (sizeof *devices[i] + 63) / 64 * 64);
    *devices[i] = (struct device){0};
  }
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, i / DEVICES % 2 ? completes : issues, (void *)i);
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  long issued = 0, done = 0;
  for (size_t i = 0; i < DEVICES; i++) issued += devices[i]->issued, done += devices[i]->done;
  for (size_t i = 0; i < THREADS; i++) issued += each[i].issued, done += each[i].done;
  return issued == THREADS / 2 * REQUESTS && done == issued ? 0 : 1;
}
