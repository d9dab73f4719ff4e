/* The guest's system calls, calls from the recorder in the guest, and modules and stacks from the process's maps. */

/* Calls with a number that no kernel has, made by guest.c. */
#define HELP 0x43534844

enum help { HELLO = 100, TICKET = 101, CHILD = 102 };

#define FRAMES 12u
#define MODULES 1024u
#define MAPS_BYTES (1u << 20)

static struct {
  uint64_t start, end;
  bool is_library;
} modules[MODULES];
static _Atomic uint32_t modules_count;
static atomic_flag maps_lock = ATOMIC_FLAG_INIT;
static char maps[MAPS_BYTES];

/* A line of the maps. */
struct map {
  uint64_t start, end;
  const char *path;
  size_t path_bytes;
};

static bool read_maps(void) {
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  size_t used = 0;
  ssize_t more = 0;
  while (used < MAPS_BYTES - 1 && (more = read(file, maps + used, MAPS_BYTES - 1 - used)) > 0) used += (size_t)more;
  close(file);
  maps[used] = 0;
  return used > 0;
}

/* Reads the map at `*at` and advances to the next one. Returns false at the end. */
static bool next_map(char **at, struct map *map) {
  char *line = *at, *end = strchr(line, '\n');
  if (end == NULL) return false;
  *at = end + 1;
  char *rest;
  map->start = strtoull(line, &rest, 16);
  map->end = strtoull(rest + 1, &rest, 16);
  char *path = memchr(rest, '/', (size_t)(end - rest));
  map->path = path;
  map->path_bytes = path == NULL ? 0 : (size_t)(end - path);
  return true;
}

static void lock_maps(void) {
  while (atomic_flag_test_and_set(&maps_lock)) usleep(50);
}
static void unlock_maps(void) { atomic_flag_clear(&maps_lock); }

static bool is_library(uint64_t pc) {
  uint32_t count = atomic_load(&modules_count);
  for (uint32_t i = 0; i < count; i++)
    if (pc >= modules[i].start && pc < modules[i].end) return modules[i].is_library;
  return false;
}

static bool is_known(uint64_t start) {
  uint32_t count = atomic_load(&modules_count);
  for (uint32_t i = 0; i < count; i++)
    if (modules[i].start == start) return true;
  return false;
}

static bool note_module(uint64_t start, uint64_t end, bool is_library) {
  uint32_t count = atomic_load(&modules_count);
  if (count >= MODULES) return false;
  modules[count].start = start;
  modules[count].end = end;
  modules[count].is_library = is_library;
  atomic_store(&modules_count, count + 1);
  return true;
}

/* Records the modules that are mapped before the program, which belong to QEMU. */
static void note_own_modules(void) {
  struct map map;
  lock_maps();
  char *at = maps;
  if (read_maps())
    while (next_map(&at, &map))
      if (map.path != NULL) note_module(map.start, map.start, false);
  unlock_maps();
}

/* Reads a program's base address and the end of its maps from its first page. Returns false if the file is not a
 * program. A guest's code is not executable to the kernel, so the maps do not have this information. */
static bool extent_of(uint64_t start, uint64_t *base, uint64_t *end) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)start;
  if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64) return false;
  if (head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phoff + (uint64_t)head->e_phnum * sizeof(Elf64_Phdr) > 4096) return false;
  const Elf64_Phdr *part = (const Elf64_Phdr *)(start + head->e_phoff);
  uint64_t low = UINT64_MAX, high = 0;
  for (int i = 0; i < head->e_phnum; i++) {
    if (part[i].p_type != PT_LOAD) continue;
    if (part[i].p_vaddr < low) low = part[i].p_vaddr & ~4095ull;
    if (part[i].p_vaddr + part[i].p_memsz > high) high = part[i].p_vaddr + part[i].p_memsz;
  }
  if (low >= high) return false;
  *base = start - low;
  *end = *base + high;
  return true;
}

static bool is_c_library(const char *path, size_t bytes) {
  static const char *const names[] = {"libc.so", "libc-", "libpthread", "ld-"};
  const char *name = path;
  for (size_t i = 0; i < bytes; i++)
    if (path[i] == '/') name = path + i + 1;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(name, names[i], strlen(names[i])) == 0) return true;
  return false;
}

/* Reports modules that have not been reported yet. */
static void tell_modules(unsigned vcpu) {
  struct map map, first = {0};
  bool has_told = false;
  lock_maps();
  char *at = maps;
  if (read_maps()) {
    while (next_map(&at, &map)) {
      if (map.path == NULL) continue;
      bool is_next = first.path != NULL && first.path_bytes == map.path_bytes &&
                     memcmp(first.path, map.path, map.path_bytes) == 0 && map.start - first.start < 1ull << 32;
      if (is_next) continue;
      first = map;
      uint64_t base, end;
      if (is_known(first.start - guest_base) || first.path_bytes > 800 || !extent_of(first.start, &base, &end)) continue;
      if (!note_module(first.start - guest_base, end - guest_base, is_c_library(first.path, first.path_bytes))) break;
      uint64_t words[4 + 100] = {base - guest_base, first.start - guest_base, end - guest_base, first.path_bytes};
      memcpy(&words[4], first.path, first.path_bytes);
      event_by(vcpu, MODULE, words, 4 + (uint32_t)(first.path_bytes + 7) / 8);
      has_told = true;
    }
  }
  unlock_maps();
  /* Pass the chunk on immediately, so that names are available even if the recording later reaches its size limit. */
  struct recorder *of = has_told ? mine(vcpu) : NULL;
  if (of != NULL) recorder_give(of);
}

/* The map of a separate stack ends with thread-local data, which is shorter than this. Stacks that Go's runtime
 * allocates from its heap for system calls have 16 KiB. */
#define OWN_STACK_BYTES (256u << 10)
#define STACK_IN_HEAP_BYTES (16u << 10)

static void tell_stack(struct recorder *of, uint64_t address) {
  struct map map;
  uint64_t end = of->stack_end, host = (end != 0 ? end - 1 : address) + guest_base;
  of->has_stack = true;
  lock_maps();
  char *at = maps;
  if (read_maps())
    while (next_map(&at, &map))
      if (host >= map.start && host < map.end) {
        uint64_t words[] = {map.start - guest_base, map.end - guest_base};
        /* Runtimes such as Go's allocate stacks in their heap. */
        if (end != 0 && words[1] - end > OWN_STACK_BYTES && end - words[0] > STACK_IN_HEAP_BYTES) {
          words[0] = end - STACK_IN_HEAP_BYTES;
          words[1] = end;
        }
        recorder_event(of, STACK, words, 2);
        break;
      }
  unlock_maps();
}

/* Reports an allocation. The guest provides the caller, and this side the calls above it. */
static void taken(unsigned vcpu, const uint64_t *told) {
  struct recorder *of = mine(vcpu);
  if (of == NULL) return;
  uint64_t words[4 + FRAMES + 1] = {told[0], told[1], told[2], told[3], told[4]};
  uint32_t depth = of->depth, count = 5;
  /* The calls in the guest's part do not belong to the program. */
  while (depth > 0 && of->depth - depth < 8 && of->stack[(depth - 1) % STACK_DEPTH] != told[4]) depth--;
  if (depth > 0 && of->stack[(depth - 1) % STACK_DEPTH] == told[4]) depth--;
  for (; depth > 0 && count < 4 + FRAMES && of->depth - depth < STACK_DEPTH; depth--)
    words[count++] = of->stack[(depth - 1) % STACK_DEPTH];
  recorder_event(of, ALLOC, words, count);
}

static void helps(unsigned vcpu, uint64_t what, uint64_t guest, uint64_t count) {
  uint64_t *words = host_of(guest);
  if (what == HELLO && count == 3) {
    atomic_store(&helper_end, words[1]);
    atomic_store(&helper_start, words[0]);
    atomic_store(&spool->is_helped, 1);
    words[2] = spool_is_open();
  } else if (what == TICKET && count == 1) {
    words[0] = next_ticket();
  } else if (what == CHILD && count == 1) {
    words[0] = call.child;
  } else if (what == ALLOC && count == 5) {
    taken(vcpu, words);
  } else if (what <= INSTRUCTIONS && count <= EVENT_WORDS) {
    event_by(vcpu, (enum event)what, words, (uint32_t)count);
  }
}

static void waits_for(unsigned vcpu, uint64_t object, uint64_t operation, uint64_t how_many) {
  switch (operation & 127) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
      call.is_wait = true;
      call.object = object;
      call.since = next_ticket();
      break;
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
    case FUTEX_WAKE_OP:
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE: {
      uint64_t words[] = {object, how_many, next_ticket()};
      event_by(vcpu, WAKE, words, 3);
      break;
    }
    default: break;
  }
}

/* Records a copy by the kernel, which runs on the program's CPU but is invisible to plugins. Its instruction is the
 * last call. */
static void has_copied(unsigned vcpu, uint64_t bytes) {
  uint32_t window = atomic_load(&spool->window);
  struct recorder *of = window == 0 ? NULL : mine(vcpu);
  if (of == NULL) return;
  if (of->window != window) recorder_gap(of, window);
  uint64_t pc = of->depth > 0 ? of->stack[(of->depth - 1) % STACK_DEPTH] : last_pc;
  uint64_t words[] = {call.buffer, bytes, call.kind, pc};
  recorder_event(of, RANGE, words, 4);
}

static void note_copy(int64_t number, uint64_t buffer) {
  for (int i = 0; i < 3; i++) {
    if (number != numbers.into[i] && number != numbers.out_of[i]) continue;
    call.is_copy = true;
    call.kind = number == numbers.into[i] ? STORE : LOAD;
    call.buffer = buffer;
  }
}

static void calls_system(plugin_id id, unsigned vcpu, int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                         uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  (void)id, (void)d, (void)f, (void)g, (void)h;
  if (number == HELP) {
    if (spool_is_open()) helps(vcpu, a, b, c);
  } else if (!spool_is_open()) {
    return;
  } else if (number == numbers.futex) {
    /* The guest's part reports the C library's locks. */
    if (!(atomic_load(&spool->is_helped) && call.is_in_library)) waits_for(vcpu, a, b, c);
  } else if (number == numbers.clone && (a & CLONE_THREAD)) {
    call.child = atomic_fetch_add(&spool->threads, 1) + 1;
    call.child_ticket = next_ticket();
    call.child_stack_end = b;
    uint64_t words[] = {call.child, call.child_ticket};
    event_by(vcpu, THREAD_CREATE, words, 2);
  } else if (number == numbers.exec || number == numbers.exec_at) {
    atomic_store(&spool->is_replaced, 1);
  } else if (number == numbers.map) {
    call.is_map = (c & PROT_EXEC) && (int)e >= 0;
  } else {
    note_copy(number, b);
  }
}

static void system_called(plugin_id id, unsigned vcpu, int64_t number, int64_t result) {
  (void)id;
  /* The call has returned, so it has failed. */
  if (number == numbers.exec || number == numbers.exec_at) atomic_store(&spool->is_replaced, 0);
  if (call.is_wait && result == 0) {
    uint64_t words[] = {call.object, call.since, next_ticket()};
    event_by(vcpu, WAIT_END, words, 3);
  }
  if (call.is_map && spool_is_open()) tell_modules(vcpu);
  if (call.is_copy && result > 0 && spool_is_open()) has_copied(vcpu, (uint64_t)result);
  call.is_wait = call.is_map = call.is_copy = false;
}

/* QEMU initializes a thread on the thread that creates it. */
static void thread_made(plugin_id id, unsigned vcpu) {
  (void)id;
  if (vcpu >= VCPUS || call.child == 0) return;
  vcpus[vcpu].id = call.child;
  vcpus[vcpu].created = call.child_ticket;
  vcpus[vcpu].stack_end = call.child_stack_end;
}
