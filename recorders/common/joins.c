/* Maps handles to threads, for joins. Handles are reused, so the newest thread counts. */
#define HANDLES 4096
static struct handle {
  _Atomic(pthread_t) thread;
  _Atomic uint32_t id;
} handles[HANDLES];

static void remember(pthread_t thread, uint32_t id) {
  for (uint32_t i = 0; i < HANDLES; i++) {
    struct handle *at = &handles[((uint64_t)thread / 4096 + i) % HANDLES];
    pthread_t nobodys = 0;
    if (atomic_load(&at->thread) == thread || atomic_compare_exchange_strong(&at->thread, &nobodys, thread)) {
      atomic_store(&at->id, id);
      return;
    }
  }
}

static uint32_t recall(pthread_t thread) {
  for (uint32_t i = 0; i < HANDLES; i++) {
    struct handle *at = &handles[((uint64_t)thread / 4096 + i) % HANDLES];
    if (atomic_load(&at->thread) == thread) return atomic_load(&at->id);
    if (atomic_load(&at->thread) == 0) return 0;
  }
  return 0;
}

static void joined(pthread_t thread) {
  uint64_t words[] = {recall(thread), next_ticket()};
  if (words[0] != 0) event_of(THREAD_JOIN, words, 2);
}

EXPORT int pthread_join(pthread_t thread, void **result) {
  int error = NEXT(pthread_join)(thread, result);
  if (error == 0) joined(thread);
  return error;
}

EXPORT int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until) {
  int error = NEXT(pthread_timedjoin_np)(thread, result, until);
  if (error == 0) joined(thread);
  return error;
}
