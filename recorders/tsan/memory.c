/* Call stacks of allocations, copies of memory, and loaded modules. */

/* Frames of a call stack that are kept. */
#define FRAMES 12u

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

/* Copies in one piece. The functions must not be compiled into calls of themselves, so built-in functions are
 * disabled. */

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

/* Copies that the kernel and the C library make for the program. Neither is instrumented, and both run on its CPU. */
#define COPIED(type, name, kind, unit, parameters, arguments)                                        \
  EXPORT type name parameters {                                                                      \
    type done = NEXT(name) arguments;                                                                \
    if (done > 0) range_of((uint64_t)buffer, (uint64_t)done * (unit), kind, RETURN_ADDRESS);         \
    return done;                                                                                     \
  }
#define INTO void *buffer, size_t bytes
#define OUT_OF const void *buffer, size_t bytes
COPIED(ssize_t, read, STORE, 1, (int file, INTO), (file, buffer, bytes))
COPIED(ssize_t, write, LOAD, 1, (int file, OUT_OF), (file, buffer, bytes))
COPIED(ssize_t, pread, STORE, 1, (int file, INTO, off_t at), (file, buffer, bytes, at))
COPIED(ssize_t, pread64, STORE, 1, (int file, INTO, off64_t at), (file, buffer, bytes, at))
COPIED(ssize_t, pwrite, LOAD, 1, (int file, OUT_OF, off_t at), (file, buffer, bytes, at))
COPIED(ssize_t, pwrite64, LOAD, 1, (int file, OUT_OF, off64_t at), (file, buffer, bytes, at))
COPIED(ssize_t, recv, STORE, 1, (int file, INTO, int flags), (file, buffer, bytes, flags))
COPIED(ssize_t, send, LOAD, 1, (int file, OUT_OF, int flags), (file, buffer, bytes, flags))
COPIED(size_t, fread, STORE, bytes, (INTO, size_t count, FILE *file), (buffer, bytes, count, file))
COPIED(size_t, fwrite, LOAD, bytes, (OUT_OF, size_t count, FILE *file), (buffer, bytes, count, file))

/* Reports loaded modules, for the names of addresses. */
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
  if (!spool_is_open()) return;
  dl_iterate_phdr(tell_module, &is_first);
  /* Pass the chunk on immediately, so that names are available even if the recording later reaches its size limit. */
  struct recorder *of = self;
  if (of == &nobody || of->is_dead || !take_turn(of)) return;
  recorder_give(of);
  end_turn(of);
}

EXPORT void *dlopen(const char *file, int flags) {
  void *handle = NEXT(dlopen)(file, flags);
  if (handle != NULL) tell_modules();
  return handle;
}

static void forked(void) {
  spool_leave();
  self = &nobody;
}

__attribute__((constructor(101))) static void begin(void) {
  next_memcpy = (copying *)dlsym(RTLD_NEXT, "memcpy");
  next_memmove = (copying *)dlsym(RTLD_NEXT, "memmove");
  next_memset = (filling *)dlsym(RTLD_NEXT, "memset");
  find_memory();
  find_processes();
  const char *path = getenv("CORESHARD_SPOOL");
  if (path == NULL) return;
  spool_open(path);
  if (!spool_is_open()) return;
  pthread_atfork(spool_forks, NULL, forked);
  attach();
  tell_modules();
}
