/* Waits of threads: the program's calls of pthreads, semaphores and futexes, which are passed on unchanged. Each
 * engine handles an event in `event_of`, and the C library's access to the lock's word in `access_of`. */

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

/* The C library accesses the lock's word and is not instrumented. The word is modified when the lock is acquired and
 * when it is released. A mutex also has a kind, which is read first, and an owner and a number of users, which are written. */
#define WORD(lock, pc) access_of((uint64_t)(lock), pc, MODIFIED, 4)
#ifdef __GLIBC__
#define FIELD(lock, field, pc, kind) access_of((uint64_t)&(lock)->__data.field, pc, kind, sizeof(lock)->__data.field)
#define OWNER(lock, pc)                \
  FIELD(lock, __owner, (pc)-2, STORE); \
  FIELD(lock, __nusers, (pc)-3, LOAD); \
  FIELD(lock, __nusers, (pc)-3, STORE)
#define TAKES_MUTEX(lock, pc)         \
  FIELD(lock, __kind, (pc)-1, LOAD);  \
  WORD(lock, pc);                     \
  OWNER(lock, pc)
#define GIVES_MUTEX(lock, pc)         \
  FIELD(lock, __kind, (pc)-1, LOAD);  \
  OWNER(lock, pc);                    \
  WORD(lock, pc)
#else
#define TAKES_MUTEX WORD
#define GIVES_MUTEX WORD
#endif

#define TAKES(name, type, is_shared, accesses, parameters, arguments) \
  EXPORT int name parameters {                                        \
    int error = NEXT(name) arguments;                                 \
    if (error == 0) {                                                 \
      locked((void *)lock, is_shared);                                \
      accesses(lock, RETURN_ADDRESS);                                 \
    }                                                                 \
    return error;                                                     \
  }
#define GIVES(name, type, accesses)    \
  EXPORT int name(type *lock) {        \
    accesses(lock, RETURN_ADDRESS);    \
    unlocks((void *)lock);             \
    return NEXT(name)(lock);           \
  }
#define UNTIL const struct timespec *until
TAKES(pthread_mutex_lock, pthread_mutex_t, 0, TAKES_MUTEX, (pthread_mutex_t * lock), (lock))
TAKES(pthread_mutex_trylock, pthread_mutex_t, 0, TAKES_MUTEX, (pthread_mutex_t * lock), (lock))
TAKES(pthread_mutex_timedlock, pthread_mutex_t, 0, TAKES_MUTEX, (pthread_mutex_t * lock, UNTIL), (lock, until))
GIVES(pthread_mutex_unlock, pthread_mutex_t, GIVES_MUTEX)
TAKES(pthread_rwlock_rdlock, pthread_rwlock_t, 1, WORD, (pthread_rwlock_t * lock), (lock))
TAKES(pthread_rwlock_tryrdlock, pthread_rwlock_t, 1, WORD, (pthread_rwlock_t * lock), (lock))
TAKES(pthread_rwlock_timedrdlock, pthread_rwlock_t, 1, WORD, (pthread_rwlock_t * lock, UNTIL), (lock, until))
TAKES(pthread_rwlock_wrlock, pthread_rwlock_t, 0, WORD, (pthread_rwlock_t * lock), (lock))
TAKES(pthread_rwlock_trywrlock, pthread_rwlock_t, 0, WORD, (pthread_rwlock_t * lock), (lock))
TAKES(pthread_rwlock_timedwrlock, pthread_rwlock_t, 0, WORD, (pthread_rwlock_t * lock, UNTIL), (lock, until))
GIVES(pthread_rwlock_unlock, pthread_rwlock_t, WORD)
TAKES(pthread_spin_lock, pthread_spinlock_t, 0, WORD, (pthread_spinlock_t * lock), (lock))
TAKES(pthread_spin_trylock, pthread_spinlock_t, 0, WORD, (pthread_spinlock_t * lock), (lock))
GIVES(pthread_spin_unlock, pthread_spinlock_t, WORD)

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

/* The call releases the mutex and acquires it again. */
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
TAKES(pthread_mutex_clocklock, pthread_mutex_t, 0, TAKES_MUTEX, (pthread_mutex_t * lock, clockid_t clock, UNTIL), (lock, clock, until))
#endif

/* A thread that leaves a barrier has waited for the last thread that arrived. */
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

/* Rust's standard library and others wait by this system call. */
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
