/* Threads and what they wait for: the program's calls of pthreads, semaphores and futexes, passed on as they are. */

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <string.h>
#include <linux/futex.h>

/* The function of this name that the program would have called without this library. */
#define NEXT(name)                                                                   \
  ({                                                                                 \
    static __typeof__(&name) next;                                                   \
    if (__builtin_expect(next == NULL, 0)) next = (__typeof__(next))dlsym(RTLD_NEXT, #name); \
    next;                                                                            \
  })

static pthread_key_t at_thread_end;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void thread_ends(void *value) {
  struct recorder *of = value;
  uint64_t words[] = {next_ticket()};
  of->is_busy = true;
  recorder_event(of, THREAD_EXIT, words, 1);
  recorder_give(of);
  /* What else runs on this thread is not recorded. */
  self = &ended;
  munmap(of, sizeof *of);
}

static void make_key(void) { pthread_key_create(&at_thread_end, thread_ends); }

static void tell_stack(struct recorder *of) {
  pthread_attr_t attributes;
  void *low;
  size_t bytes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
    uint64_t words[] = {(uint64_t)low, (uint64_t)low + bytes};
    recorder_event(of, STACK, words, 2);
  }
  pthread_attr_destroy(&attributes);
}

/* Gives the thread a recorder. `id` is 0 where nobody gave it one: the first thread, or one of the program's own making. */
static struct recorder *attach_as(uint32_t id, uint64_t created) {
  if (!spool_is_open()) return NULL;
  struct recorder *of = recorder_new(id != 0 ? id : atomic_fetch_add(&spool->threads, 1) + 1);
  if (of == NULL) return NULL;
  of->is_busy = of->is_quiet = true;
  self = of;
  uint64_t words[] = {created, next_ticket(), (uint64_t)syscall(SYS_gettid)};
  recorder_event(of, THREAD_START, words, 3);
  pthread_once(&key_once, make_key);
  pthread_setspecific(at_thread_end, of);
  tell_stack(of);
  of->is_busy = of->is_quiet = false;
  return of;
}

static struct recorder *attach(void) { return attach_as(0, 0); }

struct start {
  void *(*body)(void *);
  void *argument;
  uint64_t created;
  uint32_t id;
};

static void *started(void *of) {
  struct start start = *(struct start *)of;
  /* First: with whatever else is recorded of it, the thread would get another number. */
  attach_as(start.id, start.created);
  free(of);
  return start.body(start.argument);
}

/* Which thread a handle is, for joins. Handles are used again, so the newest counts. */
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

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
  struct start *start = spool_is_open() ? malloc(sizeof *start) : NULL;
  if (start == NULL) return NEXT(pthread_create)(thread, attributes, body, argument);
  uint32_t id = atomic_fetch_add(&spool->threads, 1) + 1;
  uint64_t ticket = next_ticket();
  *start = (struct start){body, argument, ticket, id};
  uint64_t words[] = {id, ticket};
  event_of(THREAD_CREATE, words, 2);
  int error = NEXT(pthread_create)(thread, attributes, started, start);
  if (error == 0)
    remember(*thread, id);
  else
    free(start);
  return error;
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

static void locked(void *lock, uint64_t is_shared) {
  if (!spool_is_open()) return;
  uint64_t words[] = {(uint64_t)lock, is_shared, next_ticket(), RETURN_ADDRESS};
  event_of(LOCK, words, 4);
}

static void unlocks(void *lock) {
  if (!spool_is_open()) return;
  uint64_t words[] = {(uint64_t)lock, next_ticket()};
  event_of(UNLOCK, words, 2);
}

static void wakes(const volatile void *object, uint64_t how_many) {
  if (!spool_is_open()) return;
  uint64_t words[] = {(uint64_t)object, how_many, next_ticket()};
  event_of(WAKE, words, 3);
}

static void woken(const volatile void *object, uint64_t since) {
  if (!spool_is_open()) return;
  uint64_t words[] = {(uint64_t)object, since, next_ticket()};
  event_of(WAIT_END, words, 3);
}

/* The lock's word is accessed by the C library, which is not instrumented: a change when it is taken, and one when it is
 * given back. */
#define TAKES(name, type, is_shared, parameters, arguments)                                  \
  EXPORT int name parameters {                                                               \
    int error = NEXT(name) arguments;                                                        \
    if (error == 0) {                                                                        \
      locked((void *)lock, is_shared);                                                       \
      access_of((uint64_t)lock, RETURN_ADDRESS, MODIFIED, 4);                                \
    }                                                                                        \
    return error;                                                                            \
  }
#define GIVES(name, type)                                      \
  EXPORT int name(type *lock) {                                \
    access_of((uint64_t)lock, RETURN_ADDRESS, MODIFIED, 4);    \
    unlocks((void *)lock);                                     \
    return NEXT(name)(lock);                                   \
  }
#define UNTIL const struct timespec *until
TAKES(pthread_mutex_lock, pthread_mutex_t, 0, (pthread_mutex_t * lock), (lock))
TAKES(pthread_mutex_trylock, pthread_mutex_t, 0, (pthread_mutex_t * lock), (lock))
TAKES(pthread_mutex_timedlock, pthread_mutex_t, 0, (pthread_mutex_t * lock, UNTIL), (lock, until))
GIVES(pthread_mutex_unlock, pthread_mutex_t)
TAKES(pthread_rwlock_rdlock, pthread_rwlock_t, 1, (pthread_rwlock_t * lock), (lock))
TAKES(pthread_rwlock_tryrdlock, pthread_rwlock_t, 1, (pthread_rwlock_t * lock), (lock))
TAKES(pthread_rwlock_timedrdlock, pthread_rwlock_t, 1, (pthread_rwlock_t * lock, UNTIL), (lock, until))
TAKES(pthread_rwlock_wrlock, pthread_rwlock_t, 0, (pthread_rwlock_t * lock), (lock))
TAKES(pthread_rwlock_trywrlock, pthread_rwlock_t, 0, (pthread_rwlock_t * lock), (lock))
TAKES(pthread_rwlock_timedwrlock, pthread_rwlock_t, 0, (pthread_rwlock_t * lock, UNTIL), (lock, until))
GIVES(pthread_rwlock_unlock, pthread_rwlock_t)
TAKES(pthread_spin_lock, pthread_spinlock_t, 0, (pthread_spinlock_t * lock), (lock))
TAKES(pthread_spin_trylock, pthread_spinlock_t, 0, (pthread_spinlock_t * lock), (lock))
GIVES(pthread_spin_unlock, pthread_spinlock_t)

EXPORT int pthread_cond_signal(pthread_cond_t *condition) {
  access_of((uint64_t)condition, RETURN_ADDRESS, MODIFIED, 8);
  wakes(condition, 1);
  return NEXT(pthread_cond_signal)(condition);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *condition) {
  access_of((uint64_t)condition, RETURN_ADDRESS, MODIFIED, 8);
  wakes(condition, UINT64_MAX);
  return NEXT(pthread_cond_broadcast)(condition);
}

/* The mutex is given back and taken again within. */
#define WAITS(name, parameters, arguments)                     \
  EXPORT int name parameters {                                 \
    access_of((uint64_t)condition, RETURN_ADDRESS, MODIFIED, 8); \
    unlocks(lock);                                             \
    uint64_t since = spool_is_open() ? next_ticket() : 0;      \
    int error = NEXT(name) arguments;                          \
    woken(condition, since);                                   \
    locked(lock, 0);                                           \
    return error;                                              \
  }
WAITS(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *lock), (condition, lock))
WAITS(pthread_cond_timedwait, (pthread_cond_t * condition, pthread_mutex_t *lock, UNTIL), (condition, lock, until))
#if __GLIBC_PREREQ(2, 30)
WAITS(pthread_cond_clockwait, (pthread_cond_t * condition, pthread_mutex_t *lock, clockid_t clock, UNTIL),
      (condition, lock, clock, until))
TAKES(pthread_mutex_clocklock, pthread_mutex_t, 0, (pthread_mutex_t * lock, clockid_t clock, UNTIL), (lock, clock, until))
#endif

/* Who leaves a barrier has waited for the last that came to it. */
EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier) {
  access_of((uint64_t)barrier, RETURN_ADDRESS, MODIFIED, 4);
  wakes(barrier, UINT64_MAX);
  int result = NEXT(pthread_barrier_wait)(barrier);
  woken(barrier, 0);
  return result;
}

EXPORT int sem_post(sem_t *semaphore) {
  access_of((uint64_t)semaphore, RETURN_ADDRESS, MODIFIED, 8);
  wakes(semaphore, 1);
  return NEXT(sem_post)(semaphore);
}

#define PASSES(name, parameters, arguments)                      \
  EXPORT int name parameters {                                   \
    int error = NEXT(name) arguments;                            \
    access_of((uint64_t)semaphore, RETURN_ADDRESS, MODIFIED, 8); \
    if (error == 0) woken(semaphore, 0);                         \
    return error;                                                \
  }
PASSES(sem_wait, (sem_t * semaphore), (semaphore))
PASSES(sem_trywait, (sem_t * semaphore), (semaphore))
PASSES(sem_timedwait, (sem_t * semaphore, UNTIL), (semaphore, until))

/* Rust's standard library, and others, wait by the system call itself. */
EXPORT long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  if (number != SYS_futex || !spool_is_open()) return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  int operation = (int)a[1] & FUTEX_CMD_MASK;
  bool is_wait = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
  if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET) wakes((void *)a[0], (uint64_t)a[2]);
  uint64_t since = is_wait ? next_ticket() : 0;
  long result = NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (is_wait && result == 0) {
    int error = errno;
    woken((void *)a[0], since);
    errno = error;
  }
  return result;
}
