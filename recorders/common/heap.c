/* Allocations and frees of the program. Each engine adds the call stack of an allocation in `taken`. */

static void taken(void *at, size_t bytes, size_t element_bytes, uint64_t pc);

/* dlsym may itself allocate memory, before the function to pass the call on to is known. */
static uint8_t early[1 << 16] __attribute__((aligned(16)));
static _Atomic size_t early_used;

static void *early_take(size_t bytes) {
  size_t at = atomic_fetch_add(&early_used, (bytes + 15) & ~(size_t)15);
  return at + bytes <= sizeof early ? early + at : NULL;
}

static bool is_early(const void *at) { return (const uint8_t *)at >= early && (const uint8_t *)at < early + sizeof early; }

static struct {
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void (*free)(void *);
  void *(*memalign)(size_t, size_t);
  void *(*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void **, size_t, size_t);
} next_memory;

static void find_memory(void) {
  static _Atomic bool is_looking;
  if (next_memory.free != NULL || atomic_exchange(&is_looking, true)) return;
  next_memory.malloc = dlsym(RTLD_NEXT, "malloc");
  next_memory.calloc = dlsym(RTLD_NEXT, "calloc");
  next_memory.realloc = dlsym(RTLD_NEXT, "realloc");
  next_memory.memalign = dlsym(RTLD_NEXT, "memalign");
  next_memory.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
  next_memory.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
  next_memory.free = dlsym(RTLD_NEXT, "free");
  atomic_store(&is_looking, false);
}

/* Set in a thread that is in an allocation function, so that a nested one is not reported. */
static __thread bool is_taking;

static void has_taken(const bool *within) { is_taking = *within; }

static void given_back(void *at) {
  if (at == NULL || !spool_is_open()) return;
  uint64_t words[] = {(uint64_t)at, next_ticket()};
  event_of(FREED, words, 2);
}

EXPORT void *malloc(size_t bytes) {
  find_memory();
  void *at = next_memory.malloc ? next_memory.malloc(bytes) : early_take(bytes);
  if (!is_taking) taken(at, bytes, 0, RETURN_ADDRESS);
  return at;
}

EXPORT void *calloc(size_t count, size_t bytes) {
  find_memory();
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) {
    errno = ENOMEM;
    return NULL;
  }
  void *at = next_memory.calloc ? next_memory.calloc(count, bytes) : early_take(all);
  taken(at, all, bytes, RETURN_ADDRESS);
  return at;
}

EXPORT void free(void *at) {
  if (at == NULL || is_early(at)) return;
  find_memory();
  given_back(at);
  if (next_memory.free) next_memory.free(at);
}

EXPORT void *realloc(void *at, size_t bytes) {
  find_memory();
  if (is_early(at) || next_memory.realloc == NULL) {
    void *new = malloc(bytes);
    size_t room = (size_t)(early + sizeof early - (uint8_t *)at);
    if (new != NULL && at != NULL) memcpy(new, at, bytes < room ? bytes : room);
    return new;
  }
  /* Report the free first: after it, another thread may get the same address. */
  given_back(at);
  void *new = next_memory.realloc(at, bytes);
  if (new == NULL && bytes != 0)
    taken(at, bytes, 0, RETURN_ADDRESS);
  else
    taken(new, bytes, 0, RETURN_ADDRESS);
  return new;
}

EXPORT void *reallocarray(void *at, size_t count, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(at, all);
}

/* Returns the size of one element: an allocation as long as its alignment is one object, rounded up to it. */
static size_t element_of(size_t alignment, size_t bytes) { return bytes == alignment ? bytes : 0; }

EXPORT void *memalign(size_t alignment, size_t bytes) {
  find_memory();
  void *at = next_memory.memalign ? next_memory.memalign(alignment, bytes) : NULL;
  taken(at, bytes, element_of(alignment, bytes), RETURN_ADDRESS);
  return at;
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  find_memory();
  void *at = next_memory.aligned_alloc ? next_memory.aligned_alloc(alignment, bytes) : NULL;
  if (!is_taking) taken(at, bytes, element_of(alignment, bytes), RETURN_ADDRESS);
  return at;
}

EXPORT int posix_memalign(void **at, size_t alignment, size_t bytes) {
  find_memory();
  int error = next_memory.posix_memalign ? next_memory.posix_memalign(at, alignment, bytes) : ENOMEM;
  if (error == 0 && !is_taking) taken(*at, bytes, element_of(alignment, bytes), RETURN_ADDRESS);
  return error;
}

/* C++ allocates memory in its own library, which hides the caller. These are its operators by their names in the
 * Itanium ABI: for one object and for an array, with and without an alignment, and with a null pointer or an exception
 * on failure. */
#define NEWS(name, parameters, arguments)                             \
  EXPORT void *name parameters {                                      \
    static void *(*next)parameters;                                   \
    if (next == NULL) next = (__typeof__(next))dlsym(RTLD_NEXT, #name); \
    if (next == NULL) abort();                                        \
    void *at;                                                         \
    {                                                                 \
      /* It may leave by an exception. */                             \
      __attribute__((cleanup(has_taken))) bool before = is_taking;    \
      is_taking = true;                                               \
      at = next arguments;                                            \
    }                                                                 \
    taken(at, bytes, 0, RETURN_ADDRESS);                              \
    return at;                                                        \
  }
NEWS(_Znwm, (size_t bytes), (bytes))
NEWS(_Znam, (size_t bytes), (bytes))
NEWS(_ZnwmRKSt9nothrow_t, (size_t bytes, const void *tag), (bytes, tag))
NEWS(_ZnamRKSt9nothrow_t, (size_t bytes, const void *tag), (bytes, tag))
NEWS(_ZnwmSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment))
NEWS(_ZnamSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment))
