/* The engine qemu: a plugin for QEMU's user emulation (plugin API 1), which observes every load and store of an
 * unmodified program.
 *
 * Each thread of the guest is a thread of QEMU, so a thread's recorder is thread-local here as well, and callbacks
 * of one thread are never nested. A plugin cannot see the arguments of functions. guest.c reports them: it is loaded
 * into dynamically linked programs, and makes system calls with a number that no kernel has.
 *
 * Rules:
 * 1. A guest's address is an address of this process minus `guest_base`. Values that the guest passes are untrusted
 *    and bounded here.
 * 2. Information about an instruction is put into the argument of its callback when the instruction is translated.
 */

static struct recorder nobody = {.window = UINT32_MAX};
static struct recorder ended = {.window = UINT32_MAX, .is_dead = true};
static __thread struct recorder *self = &nobody;
static pthread_key_t at_thread_end;

static uint64_t guest_base;
static bool is_based;
/* The guest's part of the recorder. Its accesses are not the program's. */
static _Atomic uint64_t helper_start, helper_end;

/* Differences between architectures. */
static struct numbers {
  bool is_x86;
  int64_t clone, futex, map, exec, exec_at;
  /* Calls that copy into or out of the program's memory, by the meaning of their second argument. */
  int64_t into[3], out_of[3];
} numbers;

/* By QEMU's number of a thread: the thread, the ticket of its creation, and the end of its stack. */
#define VCPUS 65536u
static struct {
  uint32_t id;
  uint64_t created, stack_end;
} vcpus[VCPUS];

/* The system call that a thread is in. */
static __thread struct {
  /* The thread that a call of clone creates, and the last one that was created. */
  uint32_t child;
  uint64_t child_ticket, child_stack_end;
  /* For a wait: its object, and the ticket at which it began. */
  uint64_t object, since;
  bool is_wait, is_map, is_in_library;
  /* For a copy: the kind of access to the program's memory, and the address. */
  bool is_copy;
  enum access_kind kind;
  uint64_t buffer;
} call;

static void *host_of(uint64_t guest) { return (void *)(guest + guest_base); }

static void thread_ends(void *value) {
  struct recorder *of = value;
  uint64_t words[] = {next_ticket()};
  recorder_event(of, THREAD_EXIT, words, 1);
  recorder_give(of);
  self = &ended;
  munmap(of, sizeof *of);
}

/* Reports the stack that contains `address`. */
static void tell_stack(struct recorder *of, uint64_t address);

static struct recorder *attach(unsigned vcpu) {
  if (!spool_is_open()) return NULL;
  uint32_t id = vcpu < VCPUS ? vcpus[vcpu].id : 0;
  uint64_t created = id != 0 ? vcpus[vcpu].created : 0;
  if (id != 0) vcpus[vcpu].id = 0;
  struct recorder *of = recorder_new(id != 0 ? id : atomic_fetch_add(&spool->threads, 1) + 1);
  if (of == NULL) return NULL;
  of->stack_end = id != 0 ? vcpus[vcpu].stack_end : 0;
  self = of;
  uint64_t words[] = {created, next_ticket(), (uint64_t)syscall(SYS_gettid)};
  recorder_event(of, THREAD_START, words, 3);
  pthread_setspecific(at_thread_end, of);
  return of;
}

static struct recorder *mine(unsigned vcpu) {
  struct recorder *of = self == &nobody ? attach(vcpu) : self;
  return of == NULL || of->is_dead ? NULL : of;
}

/* Handles a thread's first access, which is on its stack, and the first access in a window. */
static __attribute__((noinline)) struct recorder *first_of(unsigned vcpu, uint64_t address, uint32_t window) {
  struct recorder *of = mine(vcpu);
  if (of == NULL) return NULL;
  if (!of->has_stack) tell_stack(of, address);
  if (of->window != window) recorder_gap(of, window);
  return of;
}

static void event_by(unsigned vcpu, enum event kind, const uint64_t *words, uint32_t count) {
  struct recorder *of = mine(vcpu);
  if (of != NULL) recorder_event(of, kind, words, count);
}

/* The address after the last access, for the number of instructions since then. */
static __thread uint64_t last_pc;

/* Instructions of blocks without an access, such as a loop that only computes. They are reported with the next access once
 * they are this many. */
#define LEAST_REPORTED 64
static __thread uint64_t computed;

static void computes(unsigned vcpu, void *count) {
  (void)vcpu;
  computed += (uintptr_t)count;
}

static __attribute__((noinline)) void tell_computed(struct recorder *of) {
  uint64_t words[] = {computed};
  computed = 0;
  recorder_event(of, INSTRUCTIONS, words, 1);
}

static inline __attribute__((always_inline)) void record(unsigned vcpu, uint32_t info, uint64_t address, uint64_t pc,
                                                         uint32_t kind) {
  uint32_t window = atomic_load_explicit(&spool->window, memory_order_relaxed);
  if (__builtin_expect(window == 0, 0)) return;
  struct recorder *of = self;
  if (__builtin_expect(of->window != window, 0) && !(of = first_of(vcpu, address, window))) return;
  if (__builtin_expect(computed >= LEAST_REPORTED, 0)) tell_computed(of);
  recorder_access(of, address, pc, kind, 1u << (qemu_plugin_mem_size_shift(info) & 7), between(last_pc, pc));
  last_pc = pc;
}

/* Every callback is registered for loads and stores and distinguishes them itself, because QEMU 7.2 also calls store
 * callbacks at loads. `pc` is the address after the instruction. */
static void accessed(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  record(vcpu, info, address, (uint64_t)pc, qemu_plugin_mem_is_store(info) ? STORE : LOAD);
}

/* A read-modify-write has one call, but two calls while the program has only one thread. */
static void accessed_at_once(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  record(vcpu, info, address, (uint64_t)pc, qemu_plugin_mem_is_store(info) ? MODIFIED : LOADED);
}

/* The stack of calls: return addresses, each with its address on the guest's stack, so that frames that were left by
 * a jump are recognized. This address is 0 if the architecture keeps the return address in a register. */
static void push_call(struct recorder *of, uint64_t place, uint64_t pc) {
  while (place != 0 && of->depth > 0 && of->return_places[(of->depth - 1) % STACK_DEPTH] <= place) of->depth--;
  of->return_places[of->depth % STACK_DEPTH] = place;
  of->stack[of->depth++ % STACK_DEPTH] = pc;
}

/* The stack is also kept while no window is open, so that memory that is allocated then has a name later. */
static void calls(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  struct recorder *of = mine(vcpu);
  if (of == NULL) return;
  if (__builtin_expect(!of->has_stack, 0)) tell_stack(of, address);
  /* A call through memory loads first. */
  if (qemu_plugin_mem_is_store(info)) push_call(of, address, (uint64_t)pc);
  accessed(vcpu, info, address, pc);
}

static void returns(unsigned vcpu, uint32_t info, uint64_t address, void *pc) {
  struct recorder *of = mine(vcpu);
  if (of == NULL) return;
  while (of->depth > 0 && of->return_places[(of->depth - 1) % STACK_DEPTH] <= address) of->depth--;
  accessed(vcpu, info, address, pc);
}

static void links(unsigned vcpu, void *pc) {
  struct recorder *of = mine(vcpu);
  if (of != NULL) push_call(of, 0, (uint64_t)pc);
}

static void unlinks(unsigned vcpu, void *pc) {
  (void)pc;
  struct recorder *of = mine(vcpu);
  if (of != NULL && of->depth > 0) of->depth--;
}

static void enters_kernel(unsigned vcpu, void *is_in_library) {
  (void)vcpu;
  call.is_in_library = is_in_library != NULL;
}
