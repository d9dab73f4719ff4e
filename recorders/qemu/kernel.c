/* The recorder of kernels: a plugin of QEMU's system emulation (plugin API 1), which sees every load and store that a booted
 * kernel makes, by virtual CPU.
 *
 * A virtual CPU is a thread of the recording, with its number and 1 more. The guest opens and closes the window with an
 * 8-byte no-op in user code: 0f 1f 84 00, then 01 (open) or 00 (close), then de c0 7a. Until it opens for the first time,
 * only that instruction is looked for, so a kernel boots as fast as without a recorder. Then all translated code is dropped,
 * once: QEMU 7.2 may use the callbacks of memory accesses a last time after they were dropped, and before there is none.
 *
 * The host tells which functions are special in a table of hooks (CORESHARD_HOOKS), made from the guest's own symbols once
 * it is up. No plugin of API 1 reads registers, so locks are found by what their functions do: the first atomic access
 * within a function that takes a lock is to that lock; the function has it when it returns. A one-byte store, or an atomic
 * access, within a function that gives a lock back is to that lock. The function that switches tasks pushes on one task's
 * stack and pops from another's.
 *
 * Rules:
 * 1. A virtual CPU's state is accessed by its own thread alone.
 * 2. Whatever is known of an instruction is put into the word that its callback gets, when it is translated.
 * 3. Addresses below the kernel's half are another process's each time, so they are recorded by their physical address, in
 *    the kernel's map of all memory.
 */

typedef void on_done(plugin_id, void *);
typedef void on_reset(plugin_id);
struct plugin_hwaddr;
void qemu_plugin_register_atexit_cb(plugin_id, on_done *, void *);
void qemu_plugin_reset(plugin_id, on_reset *);
struct plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t, uint64_t);
bool qemu_plugin_hwaddr_is_io(const struct plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct plugin_hwaddr *);

#define KERNEL_HALF 0xffff800000000000ull
/* From here on the kernel maps devices, such as its interrupt controller, and pages for a moment. */
#define FIXED_MAP 0xffffffffff400000ull
/* A task's stack begins at a multiple of its length. */
#define STACK_MASK 0x3fffull
#define VCPUS 4096u
/* Lock functions within one another: an interrupt's within the one that it came in. */
#define NESTED 16u
/* A load by one instruction of one address, so many times without another access between, is a loop that waits. */
#define SPIN_LOADS 4u

#define HOOKS_MAGIC 0x31534b4f4f485343ull /* "CSHOOKS1" */
#define MOST_HOOKS 4096u
enum hook_kind { NO_HOOK, TAKES_LOCK, SHARES_LOCK, GIVES_LOCK, SPINS, SWITCHES };

struct hook {
  uint64_t start, end, kind;
};

/* The hooks' file; `hooks` are sorted by address and do not overlap. */
static struct hooks {
  uint64_t magic;
  /* Where the kernel maps all physical memory. */
  uint64_t direct_map;
  uint64_t count;
  struct hook hooks[MOST_HOOKS];
} *hooks;

static plugin_id own_id;
/* The guest has opened the window; and has for the first time, so that code is translated with callbacks. */
static _Atomic bool is_window_open, is_instrumented;

/* A lock function that a virtual CPU is in. */
struct taking {
  uint64_t lock, pc;
  uint32_t size;
  bool is_shared, is_done;
};

static struct cpu {
  struct recorder *of;
  uint64_t last_pc, last_address;
  uint32_t same_loads, depth;
  struct taking taking[NESTED];
  /* The stack that a task switch leaves, and the one that it has come to; 0 outside of one. */
  uint64_t from_stack, to_stack;
} *cpus;

static struct recorder *attach(unsigned vcpu) {
  struct recorder *of = recorder_new(vcpu + 1);
  if (of == NULL) return NULL;
  cpus[vcpu].of = of;
  uint64_t words[] = {0, next_ticket(), vcpu};
  recorder_event(of, THREAD_START, words, 3);
  return of;
}

/* The recorder of a virtual CPU in the open window; null if none is open. */
static inline __attribute__((always_inline)) struct recorder *recorder_in_window(unsigned vcpu) {
  if (!atomic_load_explicit(&is_window_open, memory_order_relaxed)) return NULL;
  uint32_t window = atomic_load_explicit(&spool->window, memory_order_relaxed);
  if (__builtin_expect(window == 0, 0) || vcpu >= VCPUS) return NULL;
  struct recorder *of = cpus[vcpu].of;
  if (__builtin_expect(of == NULL, 0) && (of = attach(vcpu)) == NULL) return NULL;
  if (of->is_dead) return NULL;
  if (__builtin_expect(of->window != window, 0)) recorder_gap(of, window);
  return of;
}

static __attribute__((noinline)) uint64_t physical(uint32_t info, uint64_t address) {
  struct plugin_hwaddr *found = qemu_plugin_get_hwaddr(info, address);
  if (found == NULL || qemu_plugin_hwaddr_is_io(found)) return 0;
  return hooks->direct_map + qemu_plugin_hwaddr_phys_addr(found);
}

static inline __attribute__((always_inline)) void record(unsigned vcpu, uint32_t info, uint64_t address, uint64_t pc,
                                                         uint32_t kind) {
  struct recorder *of = recorder_in_window(vcpu);
  if (of == NULL) return;
  struct cpu *cpu = &cpus[vcpu];
  if (__builtin_expect(address < KERNEL_HALF, 0) && (address = physical(info, address)) == 0) return;
  if (__builtin_expect(address >= FIXED_MAP, 0)) return;
  if (kind == LOAD && cpu->last_pc == pc && cpu->last_address == address) {
    if (++cpu->same_loads >= SPIN_LOADS) return;
  } else {
    cpu->same_loads = 0;
  }
  uint64_t last = cpu->last_pc;
  recorder_access(of, address, pc, kind, 1u << (qemu_plugin_mem_size_shift(info) & 7), between(last, pc));
  cpu->last_pc = pc;
  cpu->last_address = address;
}

static void accessed(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  record(vcpu, info, address, (uint64_t)pc, qemu_plugin_mem_is_store(info) ? STORE : LOAD);
}

/* An emulator with one thread for all CPUs makes two calls, of which the second says it all. */
static void accessed_at_once(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  if (qemu_plugin_mem_is_store(info)) record(vcpu, info, address, (uint64_t)pc, MODIFIED);
}

/* Locks. */

static void begins_taking(unsigned vcpu, void *is_shared) {
  if (vcpu >= VCPUS) return;
  struct cpu *cpu = &cpus[vcpu];
  /* The slow path was called last of all by the one before, which did not come back itself. */
  if (cpu->depth > 0 && cpu->taking[cpu->depth - 1].is_done) cpu->depth--;
  if (cpu->depth == NESTED) cpu->depth = 0;
  cpu->taking[cpu->depth++] = (struct taking){.is_shared = is_shared != NULL};
}

static struct taking *taking_of(unsigned vcpu) {
  struct cpu *cpu = vcpu < VCPUS && cpus[vcpu].depth > 0 ? &cpus[vcpu] : NULL;
  return cpu == NULL ? NULL : &cpu->taking[cpu->depth - 1];
}

static void accessed_lock(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  struct taking *taking = taking_of(vcpu);
  if (taking == NULL || taking->lock != 0) return;
  taking->lock = address;
  taking->pc = (uint64_t)pc;
  taking->size = 1u << (qemu_plugin_mem_size_shift(info) & 7);
}

static void has_taken(unsigned vcpu, struct taking *taking) {
  struct recorder *of = taking->lock == 0 || taking->is_done ? NULL : recorder_in_window(vcpu);
  taking->is_done = true;
  if (of == NULL) return;
  uint64_t words[] = {taking->lock, taking->is_shared, next_ticket(), taking->pc};
  recorder_event(of, LOCK, words, 4);
  recorder_access(of, taking->lock, taking->pc, MODIFIED, taking->size, 0);
}

/* The slow path of a lock returns: the lock is taken. */
static void has_waited(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  (void)info, (void)address, (void)pc;
  struct taking *taking = taking_of(vcpu);
  if (taking != NULL) has_taken(vcpu, taking);
}

static void ends_taking(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  struct taking *taking = taking_of(vcpu);
  if (taking != NULL) {
    has_taken(vcpu, taking);
    cpus[vcpu].depth--;
  }
  accessed(vcpu, info, address, pc);
}

static void has_given(unsigned vcpu, uint64_t lock) {
  struct recorder *of = recorder_in_window(vcpu);
  if (of == NULL) return;
  uint64_t words[] = {lock, next_ticket()};
  recorder_event(of, UNLOCK, words, 2);
  struct cpu *cpu = &cpus[vcpu];
  if (cpu->to_stack == 0) return;
  uint64_t waited[] = {cpu->to_stack, 0, next_ticket()};
  recorder_event(of, WAIT_END, waited, 3);
  cpu->to_stack = 0;
}

static void stored_in_giving(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  accessed(vcpu, info, address, pc);
  if (qemu_plugin_mem_is_store(info) && qemu_plugin_mem_size_shift(info) == 0) has_given(vcpu, address);
}

static void modified_in_giving(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  accessed_at_once(vcpu, info, address, pc);
  if (qemu_plugin_mem_is_store(info)) has_given(vcpu, address);
}

/* Task switches. A task is known by its stack. It runs on after the last time that another CPU left it, so a switch is a
 * wake for the task that is left, and has waited for the task that it comes to. The CPU has its run queue's lock meanwhile,
 * and a replay takes locks in an order of its own: so the wait is said when that lock has been given back. */

static void pushed_in_switch(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  if (vcpu < VCPUS) cpus[vcpu].from_stack = address & ~STACK_MASK;
  accessed(vcpu, info, address, pc);
}

static void popped_in_switch(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  struct recorder *of = recorder_in_window(vcpu);
  if (of != NULL && cpus[vcpu].from_stack != 0) {
    struct cpu *cpu = &cpus[vcpu];
    uint64_t words[] = {cpu->from_stack, 1, next_ticket()};
    recorder_event(of, WAKE, words, 3);
    cpu->from_stack = 0;
    cpu->to_stack = address & ~STACK_MASK;
  }
  accessed(vcpu, info, address, pc);
}

/* Translation. */

static const struct hook *hook_at(uint64_t pc) {
  uint64_t low = 0, high = hooks->count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (hooks->hooks[middle].end <= pc)
      low = middle + 1;
    else
      high = middle;
  }
  return low < hooks->count && hooks->hooks[low].start <= pc ? &hooks->hooks[low] : NULL;
}

static void register_callbacks(plugin_id id);

static void marked(unsigned vcpu, void *opens) {
  (void)vcpu;
  atomic_store(&is_window_open, opens != NULL);
  if (opens != NULL && !atomic_exchange(&is_instrumented, true)) qemu_plugin_reset(own_id, register_callbacks);
}

static void mark(struct plugin_insn *insn) {
  uint8_t code[MOST_CODE];
  if (code_of(insn, code) != 8 || memcmp(code, "\x0f\x1f\x84\x00", 4) != 0 || memcmp(code + 5, "\xde\xc0\x7a", 3) != 0)
    return;
  qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, NO_REGISTERS, (void *)(uintptr_t)(code[4] == 1));
}

static on_memory *callback_of(enum shape shape, enum hook_kind kind, uint8_t last) {
  bool is_return = shape == RETURN, is_atomic = shape == AT_ONCE;
  switch (kind) {
    case TAKES_LOCK:
    case SHARES_LOCK: return is_atomic ? accessed_lock : is_return ? ends_taking : accessed;
    case GIVES_LOCK: return is_atomic ? modified_in_giving : stored_in_giving;
    /* A wait is no access. */
    case SPINS: return is_return ? has_waited : NULL;
    /* Its pushes and pops are those of whole registers. */
    case SWITCHES: return (last & 0xf8) == 0x50 ? pushed_in_switch : (last & 0xf8) == 0x58 ? popped_in_switch : accessed;
    default: return is_atomic ? accessed_at_once : accessed;
  }
}

static void translated(plugin_id id, struct plugin_tb *tb) {
  (void)id;
  size_t count = qemu_plugin_tb_n_insns(tb);
  if (count == 0) return;
  uint64_t block = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
  bool is_user = block < KERNEL_HALF;
  if (!is_user && !atomic_load(&is_instrumented)) return;
  for (size_t i = 0; i < count; i++) {
    struct plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
    if (is_user) {
      mark(insn);
      continue;
    }
    uint64_t pc = qemu_plugin_insn_vaddr(insn);
    uint8_t code[MOST_CODE];
    size_t bytes = code_of(insn, code);
    uint64_t after = pc + bytes;
    note_place(after, block, i, count);
    const struct hook *hook = hook_at(pc);
    enum hook_kind kind = hook == NULL ? NO_HOOK : (enum hook_kind)hook->kind;
    if (hook != NULL && hook->start == pc && (kind == TAKES_LOCK || kind == SHARES_LOCK))
      qemu_plugin_register_vcpu_insn_exec_cb(insn, begins_taking, NO_REGISTERS, kind == SHARES_LOCK ? (void *)hook : NULL);
    if (!accesses_memory_x86(code, bytes)) continue;
    on_memory *on = callback_of(shape_x86(code, bytes), kind, code[bytes - 1]);
    if (on != NULL) qemu_plugin_register_vcpu_mem_cb(insn, on, NO_REGISTERS, MEM_BOTH, (void *)after);
  }
}

/* All virtual CPUs have stopped. */
static void ends(plugin_id id, void *word) {
  (void)id, (void)word;
  for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
    struct recorder *of = cpus[vcpu].of;
    if (of == NULL || of->is_dead) continue;
    uint64_t words[] = {next_ticket()};
    recorder_event(of, THREAD_EXIT, words, 1);
    recorder_give(of);
  }
}

static void register_callbacks(plugin_id id) {
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ends, NULL);
}

static bool open_hooks(void) {
  const char *path = getenv("CORESHARD_HOOKS");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  void *at = mmap(NULL, sizeof(struct hooks), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (at == MAP_FAILED) return false;
  hooks = at;
  return hooks->magic == HOOKS_MAGIC;
}

EXPORT int qemu_plugin_install(plugin_id id, const struct plugin_info *info, int count, char **options) {
  (void)count, (void)options;
  const char *path = getenv("CORESHARD_SPOOL");
  void *room = mmap(NULL, VCPUS * sizeof(struct cpu), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (strcmp(info->target_name, "x86_64") != 0 || path == NULL || room == MAP_FAILED || !make_places()) return -1;
  cpus = room;
  own_id = id;
  spool_open(path);
  if (!spool_is_open() || !open_hooks()) return -1;
  register_callbacks(id);
  return 0;
}
