/* The entry points that GCC and Clang call with -fsanitize=thread: loads, stores, ranges, functions, atomics.
 *
 * Each makes the access with the requested memory order or a stronger one, and reports it to the thread's recorder.
 * The instruction is the return address of the call.
 */

/* Recorders of threads that have none yet, and of threads that have ended. They are never ready, and their `id` is
 * 0. */
static struct recorder nobody = {.ready = NOT_READY};
static struct recorder ended = {.ready = NOT_READY, .is_dead = true};
static __thread struct recorder *self = &nobody;

static struct recorder *attach(void);
static void access_slowly(uint64_t address, uint64_t pc, uint32_t kind, uint32_t size);

/* Each thread records one event at a time. A signal handler that interrupts it only counts its event as lost. */
static inline bool take_turn(struct recorder *of) {
  if (of->is_busy || (of->ready == NOT_READY && of->window != 0)) {
    of->lost += !of->is_quiet;
    return false;
  }
  of->is_busy = true;
  of->ready = NOT_READY;
  atomic_signal_fence(memory_order_seq_cst);
  return true;
}

static inline void end_turn(struct recorder *of) {
  atomic_signal_fence(memory_order_seq_cst);
  of->ready = of->window == 0 ? NOT_READY : of->window;
  of->is_busy = false;
}

/* A signal handler may run between any two of these steps. It finds that the thread is not ready. */
static inline __attribute__((always_inline)) void access_of(uint64_t address, uint64_t pc, uint32_t kind, uint32_t size) {
  struct recorder *of = self;
  uint32_t window = atomic_load_explicit(&spool->window, memory_order_relaxed);
  struct site *site = recorder_site_of(of, pc, kind);
  if (__builtin_expect(of->ready != window, 0) || __builtin_expect(of->at >= of->limit, 0) ||
      __builtin_expect(site->key != recorder_key(of, pc, kind), 0)) {
    access_slowly(address, pc, kind, size);
    return;
  }
  of->ready = NOT_READY;
  atomic_signal_fence(memory_order_seq_cst);
  recorder_again(of, site, address);
  recorder_publish(of);
  atomic_signal_fence(memory_order_seq_cst);
  of->ready = window;
}

/* Handles the first access of a thread, in a window, in a chunk or by a site, and accesses of signal handlers. */
static __attribute__((noinline)) void access_slowly(uint64_t address, uint64_t pc, uint32_t kind, uint32_t size) {
  uint32_t window = atomic_load_explicit(&spool->window, memory_order_relaxed);
  if (window == 0) return;
  struct recorder *of = self == &nobody ? attach() : self;
  if (of == NULL || of->is_dead || !take_turn(of)) return;
  if (of->window != window) recorder_gap(of, window);
  recorder_access(of, address, pc, kind, size, 0u);
  end_turn(of);
}

/* Records an event even if no window is open. Without such events, objects in later windows have no names. */
static void event_of(enum event kind, const uint64_t *words, uint32_t count) {
  if (!spool_is_open()) return;
  struct recorder *of = self == &nobody ? attach() : self;
  if (of == NULL || of->is_dead || !take_turn(of)) return;
  recorder_event(of, kind, words, count);
  end_turn(of);
}

static void range_of(uint64_t address, uint64_t bytes, uint32_t kind, uint64_t pc) {
  if (bytes == 0 || atomic_load_explicit(&spool->window, memory_order_relaxed) == 0) return;
  struct recorder *of = self;
  /* The first access in a window, which also reports the gap before it. */
  if (of == &nobody || of->window != atomic_load(&spool->window)) access_slowly(address, pc, kind, 1);
  uint64_t words[] = {address, bytes, kind, pc};
  event_of(RANGE, words, 4);
}

EXPORT void __tsan_init(void) {}

EXPORT void __tsan_func_entry(void *pc) {
  struct recorder *of = self;
  if (of->id == 0) return;
  of->stack[of->depth % STACK_DEPTH] = (uint64_t)pc;
  of->depth++;
}

EXPORT void __tsan_func_exit(void) {
  struct recorder *of = self;
  if (of->id != 0 && of->depth > 0) of->depth--;
}

#define ACCESS(name, kind, size) \
  EXPORT void __tsan_##name(void *address) { access_of((uint64_t)address, RETURN_ADDRESS, kind, size); }
#define ACCESS_PC(name, kind, size) \
  EXPORT void __tsan_##name##_pc(void *address, void *pc) { access_of((uint64_t)address, (uint64_t)pc, kind, size); }
#define ACCESSES(size)                          \
  ACCESS(read##size, LOAD, size)                \
  ACCESS(write##size, STORE, size)              \
  ACCESS(unaligned_read##size, LOAD, size)      \
  ACCESS(unaligned_write##size, STORE, size)    \
  ACCESS(volatile_read##size, LOAD, size)       \
  ACCESS(volatile_write##size, STORE, size)     \
  ACCESS(unaligned_volatile_read##size, LOAD, size) \
  ACCESS(unaligned_volatile_write##size, STORE, size) \
  ACCESS_PC(read##size, LOAD, size)             \
  ACCESS_PC(write##size, STORE, size)           \
  BOTH(read_write##size, size)                  \
  BOTH(unaligned_read_write##size, size)
/* Clang has one call for a load followed by a store. The two have different addresses, and two keys here. */
#define BOTH(name, size)                                                  \
  EXPORT void __tsan_##name(void *address) {                              \
    access_of((uint64_t)address, RETURN_ADDRESS - 1, LOAD, size);         \
    access_of((uint64_t)address, RETURN_ADDRESS, STORE, size);            \
  }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

EXPORT void __tsan_read_range(void *address, unsigned long bytes) {
  range_of((uint64_t)address, bytes, LOAD, RETURN_ADDRESS);
}
EXPORT void __tsan_write_range(void *address, unsigned long bytes) {
  range_of((uint64_t)address, bytes, STORE, RETURN_ADDRESS);
}
EXPORT void __tsan_read_range_pc(void *address, unsigned long bytes, void *pc) {
  range_of((uint64_t)address, bytes, LOAD, (uint64_t)pc);
}
EXPORT void __tsan_write_range_pc(void *address, unsigned long bytes, void *pc) {
  range_of((uint64_t)address, bytes, STORE, (uint64_t)pc);
}
EXPORT void __tsan_vptr_update(void **address, void *value) {
  if (*address != value) access_of((uint64_t)address, RETURN_ADDRESS, STORE, sizeof value);
}
EXPORT void __tsan_vptr_read(void **address) { access_of((uint64_t)address, RETURN_ADDRESS, LOAD, sizeof *address); }

/* Atomics. A recorded operation is one access. A failed compare-exchange takes the line as well. */

/* A stronger order than requested is always correct. For a store it would cost a barrier on x86. */
#define ORDER_OF_STORE(order) ((order) == 5 ? memory_order_seq_cst : memory_order_release)

#define FETCH(bits, type, word, operation)                                                                 \
  EXPORT type __tsan_atomic##bits##_fetch_##word(volatile type *at, type value, int order) {               \
    (void)order;                                                                                           \
    access_of((uint64_t)at, RETURN_ADDRESS, MODIFIED, bits / 8);                                           \
    return operation(at, value, __ATOMIC_SEQ_CST);                                                         \
  }
#define EXCHANGE(bits, type, word, is_weak)                                                                \
  EXPORT int __tsan_atomic##bits##_compare_exchange_##word(volatile type *at, type *expected, type value,  \
                                                           int order, int order_if_not) {                  \
    (void)order, (void)order_if_not;                                                                       \
    access_of((uint64_t)at, RETURN_ADDRESS, MODIFIED, bits / 8);                                           \
    return __atomic_compare_exchange_n(at, expected, value, is_weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
  }
#define ATOMIC(bits, type)                                                                                 \
  EXPORT type __tsan_atomic##bits##_load(const volatile type *at, int order) {                             \
    (void)order;                                                                                           \
    access_of((uint64_t)at, RETURN_ADDRESS, LOADED, bits / 8);                                             \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                        \
  EXPORT void __tsan_atomic##bits##_store(volatile type *at, type value, int order) {                      \
    access_of((uint64_t)at, RETURN_ADDRESS, STORED, bits / 8);                                             \
    if (ORDER_OF_STORE(order) == memory_order_seq_cst)                                                     \
      __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                       \
    else                                                                                                   \
      __atomic_store_n(at, value, __ATOMIC_RELEASE);                                                       \
  }                                                                                                        \
  EXPORT type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order) {                   \
    (void)order;                                                                                           \
    access_of((uint64_t)at, RETURN_ADDRESS, MODIFIED, bits / 8);                                           \
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                               \
  }                                                                                                        \
  FETCH(bits, type, add, __atomic_fetch_add)                                                               \
  FETCH(bits, type, sub, __atomic_fetch_sub)                                                               \
  FETCH(bits, type, and, __atomic_fetch_and)                                                               \
  FETCH(bits, type, or, __atomic_fetch_or)                                                                 \
  FETCH(bits, type, xor, __atomic_fetch_xor)                                                               \
  FETCH(bits, type, nand, __atomic_fetch_nand)                                                             \
  EXCHANGE(bits, type, strong, 0)                                                                          \
  EXCHANGE(bits, type, weak, 1)                                                                            \
  EXPORT type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, type value,     \
                                                         int order, int order_if_not) {                    \
    (void)order, (void)order_if_not;                                                                       \
    access_of((uint64_t)at, RETURN_ADDRESS, MODIFIED, bits / 8);                                           \
    __atomic_compare_exchange_n(at, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
    return expected;                                                                                       \
  }
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

/* 16-byte atomics use the same instruction as the compilers, without a library. */
typedef unsigned __int128 wide;
#if defined(__x86_64__)
#define WIDE __attribute__((target("cx16")))
#else
#define WIDE
#endif
static WIDE inline wide wide_exchange(volatile wide *at, wide expected, wide value) {
  return __sync_val_compare_and_swap(at, expected, value);
}
#define WIDE_CHANGE(word, result)                                                          \
  EXPORT WIDE wide __tsan_atomic128_##word(volatile wide *at, wide value, int order) {     \
    (void)order;                                                                           \
    access_of((uint64_t)at, RETURN_ADDRESS, MODIFIED, 16);                                 \
    wide was = 0;                                                                          \
    for (wide seen = wide_exchange(at, 0, 0);; seen = was) {                               \
      was = wide_exchange(at, seen, (result));                                             \
      if (was == seen) return was;                                                         \
    }                                                                                      \
  }
WIDE_CHANGE(exchange, value)
WIDE_CHANGE(fetch_add, seen + value)
WIDE_CHANGE(fetch_sub, seen - value)
WIDE_CHANGE(fetch_and, seen &value)
WIDE_CHANGE(fetch_or, seen | value)
WIDE_CHANGE(fetch_xor, seen ^ value)
WIDE_CHANGE(fetch_nand, ~(seen & value))
EXPORT WIDE wide __tsan_atomic128_load(const volatile wide *at, int order) {
  (void)order;
  access_of((uint64_t)at, RETURN_ADDRESS, LOADED, 16);
  return wide_exchange((volatile wide *)at, 0, 0);
}
EXPORT void __tsan_atomic128_store(volatile wide *at, wide value, int order) {
  (void)order;
  access_of((uint64_t)at, RETURN_ADDRESS, STORED, 16);
  for (wide seen = wide_exchange(at, 0, 0), was;; seen = was) {
    was = wide_exchange(at, seen, value);
    if (was == seen) return;
  }
}
EXPORT WIDE wide __tsan_atomic128_compare_exchange_val(volatile wide *at, wide expected, wide value, int order,
                                                       int order_if_not) {
  (void)order, (void)order_if_not;
  access_of((uint64_t)at, RETURN_ADDRESS, MODIFIED, 16);
  return wide_exchange(at, expected, value);
}
#define WIDE_COMPARE(word)                                                                                          \
  EXPORT WIDE int __tsan_atomic128_compare_exchange_##word(volatile wide *at, wide *expected, wide value, int order, \
                                                           int order_if_not) {                                      \
    (void)order, (void)order_if_not;                                                                                \
    access_of((uint64_t)at, RETURN_ADDRESS, MODIFIED, 16);                                                          \
    wide seen = wide_exchange(at, *expected, value);                                                                \
    int is_done = seen == *expected;                                                                                \
    if (!is_done) *expected = seen;                                                                                 \
    return is_done;                                                                                                 \
  }
WIDE_COMPARE(strong)
WIDE_COMPARE(weak)

EXPORT void __tsan_atomic_thread_fence(int order) {
  (void)order;
  atomic_thread_fence(memory_order_seq_cst);
}
EXPORT void __tsan_atomic_signal_fence(int order) {
  (void)order;
  atomic_signal_fence(memory_order_seq_cst);
}

/* Calls by programs that know the sanitizer. They access no memory. */
EXPORT void __tsan_acquire(void *at) { (void)at; }
EXPORT void __tsan_release(void *at) { (void)at; }
EXPORT void __tsan_ignore_thread_begin(void) {}
EXPORT void __tsan_ignore_thread_end(void) {}
EXPORT void __tsan_mutex_create(void *at, unsigned flags) { (void)at, (void)flags; }
EXPORT void __tsan_mutex_destroy(void *at, unsigned flags) { (void)at, (void)flags; }
EXPORT void __tsan_mutex_pre_lock(void *at, unsigned flags) { (void)at, (void)flags; }
EXPORT void __tsan_mutex_post_lock(void *at, unsigned flags, int depth) { (void)at, (void)flags, (void)depth; }
EXPORT int __tsan_mutex_pre_unlock(void *at, unsigned flags) {
  (void)at, (void)flags;
  return 0;
}
EXPORT void __tsan_mutex_post_unlock(void *at, unsigned flags) { (void)at, (void)flags; }
EXPORT void __tsan_mutex_pre_signal(void *at, unsigned flags) { (void)at, (void)flags; }
EXPORT void __tsan_mutex_post_signal(void *at, unsigned flags) { (void)at, (void)flags; }
EXPORT void __tsan_mutex_pre_divert(void *at, unsigned flags) { (void)at, (void)flags; }
EXPORT void __tsan_mutex_post_divert(void *at, unsigned flags) { (void)at, (void)flags; }
EXPORT void *__tsan_get_current_fiber(void) { return NULL; }
EXPORT void *__tsan_create_fiber(unsigned flags) {
  (void)flags;
  return NULL;
}
EXPORT void __tsan_destroy_fiber(void *fiber) { (void)fiber; }
EXPORT void __tsan_switch_to_fiber(void *fiber, unsigned flags) { (void)fiber, (void)flags; }
EXPORT void __tsan_set_fiber_name(void *fiber, const char *name) { (void)fiber, (void)name; }
