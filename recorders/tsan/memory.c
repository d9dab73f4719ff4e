/* The program's memory: what it takes and gives back, with the calls that led there, and what is copied in one piece. */

/* Frames of a call stack that are kept. */
#define FRAMES 12u

/* dlsym may itself take memory, before there is a function to pass the call on to. */
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

static void taken(void *at, size_t bytes, size_t element_bytes, uint64_t pc) {
  if (at == NULL || !spool_is_open()) return;
  struct recorder *of = self == &nobody ? attach() : self;
  if (of == NULL || of->is_busy) return;
  uint64_t words[4 + FRAMES + 1] = {(uint64_t)at, bytes, element_bytes, next_ticket(), pc};
  uint32_t count = 5;
  for (uint32_t depth = of->depth; depth > 0 && count < 4 + FRAMES && of->depth - depth < STACK_DEPTH; depth--)
    words[count++] = of->stack[(depth - 1) % STACK_DEPTH];
  event_of(ALLOC, words, count);
}

static void given_back(void *at) {
  if (at == NULL || !spool_is_open()) return;
  uint64_t words[] = {(uint64_t)at, next_ticket()};
  event_of(FREED, words, 2);
}

EXPORT void *malloc(size_t bytes) {
  find_memory();
  void *at = next_memory.malloc ? next_memory.malloc(bytes) : early_take(bytes);
  taken(at, bytes, 0, RETURN_ADDRESS);
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
  /* Said first: once it is given back, another thread may get the same address. */
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

EXPORT void *memalign(size_t alignment, size_t bytes) {
  find_memory();
  void *at = next_memory.memalign ? next_memory.memalign(alignment, bytes) : NULL;
  taken(at, bytes, 0, RETURN_ADDRESS);
  return at;
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  find_memory();
  void *at = next_memory.aligned_alloc ? next_memory.aligned_alloc(alignment, bytes) : NULL;
  taken(at, bytes, 0, RETURN_ADDRESS);
  return at;
}

EXPORT int posix_memalign(void **at, size_t alignment, size_t bytes) {
  find_memory();
  int error = next_memory.posix_memalign ? next_memory.posix_memalign(at, alignment, bytes) : ENOMEM;
  if (error == 0) taken(*at, bytes, 0, RETURN_ADDRESS);
  return error;
}

/* Copies in one piece. Nothing here may become a call of itself: it is compiled without built-in functions. */

static void copy_up(uint8_t *to, const uint8_t *from, size_t bytes) {
  for (; bytes > 0; bytes--) {
    *to++ = *from++;
    __asm__ volatile("" ::: "memory");
  }
}

static void copy_down(uint8_t *to, const uint8_t *from, size_t bytes) {
  for (; bytes > 0; bytes--) {
    to[bytes - 1] = from[bytes - 1];
    __asm__ volatile("" ::: "memory");
  }
}

typedef void *copying(void *, const void *, size_t);
typedef void *filling(void *, int, size_t);
static copying *next_memcpy, *next_memmove;
static filling *next_memset;

static void *moved(void *to, const void *from, size_t bytes, copying *next) {
  if (next != NULL) return next(to, from, bytes);
  if ((uintptr_t)to < (uintptr_t)from)
    copy_up(to, from, bytes);
  else
    copy_down(to, from, bytes);
  return to;
}

static void *filled(void *to, int byte, size_t bytes) {
  if (next_memset != NULL) return next_memset(to, byte, bytes);
  for (uint8_t *at = to; bytes > 0; bytes--) {
    *at++ = (uint8_t)byte;
    __asm__ volatile("" ::: "memory");
  }
  return to;
}

#define COPIES(name, next)                                        \
  EXPORT void *name(void *to, const void *from, size_t bytes) {   \
    range_of((uint64_t)from, bytes, LOAD, RETURN_ADDRESS - 1);    \
    range_of((uint64_t)to, bytes, STORE, RETURN_ADDRESS);         \
    return moved(to, from, bytes, next);                          \
  }
#define FILLS(name)                                               \
  EXPORT void *name(void *to, int byte, size_t bytes) {           \
    range_of((uint64_t)to, bytes, STORE, RETURN_ADDRESS);         \
    return filled(to, byte, bytes);                               \
  }
COPIES(memcpy, next_memcpy)
COPIES(memmove, next_memmove)
COPIES(__tsan_memcpy, next_memcpy)
COPIES(__tsan_memmove, next_memmove)
FILLS(memset)
FILLS(__tsan_memset)

/* What is loaded where: for the names of addresses. */
static int tell_module(struct dl_phdr_info *info, size_t size, void *first) {
  (void)size;
  uint64_t low = UINT64_MAX, high = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uint64_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (start < low) low = start;
    if (start + info->dlpi_phdr[i].p_memsz > high) high = start + info->dlpi_phdr[i].p_memsz;
  }
  const char *name = info->dlpi_name;
  char program[800];
  if (*(bool *)first) {
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length < 0 ? 0 : length] = 0;
    name = program;
  }
  *(bool *)first = false;
  size_t length = strlen(name);
  if (length == 0 || low >= high || length > 800) return 0;
  uint64_t words[4 + 100] = {info->dlpi_addr, low, high, length};
  copy_up((uint8_t *)&words[4], (const uint8_t *)name, length);
  event_of(MODULE, words, 4 + (uint32_t)(length + 7) / 8);
  return 0;
}

static void tell_modules(void) {
  bool is_first = true;
  if (spool_is_open()) dl_iterate_phdr(tell_module, &is_first);
}

EXPORT void *dlopen(const char *file, int flags) {
  void *handle = NEXT(dlopen)(file, flags);
  if (handle != NULL) tell_modules();
  return handle;
}

/* A child is another process, which is not recorded. */
static void forked(void) {
  spool = &no_spool;
  self = &nobody;
}

__attribute__((constructor(101))) static void begin(void) {
  next_memcpy = (copying *)dlsym(RTLD_NEXT, "memcpy");
  next_memmove = (copying *)dlsym(RTLD_NEXT, "memmove");
  next_memset = (filling *)dlsym(RTLD_NEXT, "memset");
  find_memory();
  const char *path = getenv("CORESHARD_SPOOL");
  if (path == NULL) return;
  spool_open(path);
  if (!spool_is_open()) return;
  pthread_atfork(NULL, NULL, forked);
  attach();
  tell_modules();
}
