/* The spool: shared memory through which a recorded program hands its events to `coreshard record`.
 *
 * The format and the protocol are in crates/coreshard-trace/src/recording/README.md. Both engines use this file.
 *
 * Rules:
 * 1. A chunk has at most one owner: the thread that fills it (FILLING) or the command that takes it (FULL). A FREE
 *    chunk has none. Only the owner writes it, and passes it on by a release store of its state.
 * 2. A chunk's `used` is stored after the bytes that it counts, so that complete events can be read after any crash.
 * 3. Nothing here allocates memory or acquires locks of the program.
 * 4. If a thread is already in the recorder, as a signal handler may be, it records nothing and counts the event as
 *    lost.
 */
#ifndef CORESHARD_SPOOL_H
#define CORESHARD_SPOOL_H

#define SPOOL_MAGIC 0x314c4f4f50534343ull /* "CCSPOOL1" */
#define SPOOL_HEAD_BYTES 4096u
#define SITES 4096u
#define STACK_DEPTH 256u
/* Chunks that a thread tries first, and the number of attempts. */
#define NEAR_CHUNKS 16u
#define NEAR_ROUNDS 400u
/* The longest event; a chunk with less room is full. */
#define EVENT_BYTES 1024u
#define EVENT_WORDS (EVENT_BYTES / 8 - 2)

enum chunk_state { FREE, FILLING, FULL };

/* One for each chunk, a line each: `used` changes with every event. */
struct chunk_head {
  _Atomic uint32_t state;
  uint32_t thread;
  _Atomic uint32_t used;
  uint32_t order; /* of this thread's chunks */
  uint32_t rest[12];
};

struct spool {
  uint64_t magic;
  uint32_t chunks;
  uint32_t chunk_bytes;
  /* The number of the open window; 0 if none is open. */
  _Atomic uint32_t window;
  _Atomic uint32_t threads;
  /* The recorded process. Other processes find it set. */
  _Atomic uint32_t process;
  _Atomic uint32_t others;
  _Atomic uint32_t threads_lost;
  uint32_t command;
  _Atomic uint64_t tickets;
  _Atomic uint64_t events_lost;
  /* For the engine qemu: whether the guest has reported its locks and allocations. */
  _Atomic uint32_t is_helped;
  /* Whether the process called exec. */
  _Atomic uint32_t is_replaced;
};

struct site {
  uint64_t key;
  uint64_t last;
};

#define NOT_READY UINT32_MAX

struct recorder {
  uint8_t *at;
  uint8_t *limit;
  uint8_t *start;
  struct chunk_head *head;
  uint64_t generation; /* of `sites`, in the bits above any address */
  /* The thread's window while it is not busy, otherwise NOT_READY, so that an access needs only one comparison. */
  uint32_t ready;
  uint32_t window;
  bool is_busy;
  /* Whether the recorder itself is running in this thread. Its events are not counted as lost. */
  bool is_quiet;
  bool is_dead;
  bool has_stack;
  uint32_t id;
  uint32_t order;
  uint32_t depth;
  uint64_t lost;
  uint64_t stack[STACK_DEPTH];
  /* For the engine qemu: the address on the guest's stack that contains each of these. */
  uint64_t return_places[STACK_DEPTH];
  /* For the engine qemu: the end of the stack that the thread's creator passed; 0 if unknown. */
  uint64_t stack_end;
  struct site sites[SITES];
};

static struct spool no_spool;
/* Never null. */
static struct spool *spool = &no_spool;
/* The spool that counts processes. It is also used in processes that are not recorded. */
static struct spool *counted_in = &no_spool;

static inline struct chunk_head *spool_heads(void) {
  return (struct chunk_head *)((uint8_t *)spool + SPOOL_HEAD_BYTES);
}

static inline uint8_t *spool_chunk(uint32_t number) {
  return (uint8_t *)spool + SPOOL_HEAD_BYTES + (size_t)spool->chunks * sizeof(struct chunk_head) +
         (size_t)number * spool->chunk_bytes;
}

/* Opens the spool that the environment names. Without a spool, nothing is recorded. */
static void spool_open(const char *path) {
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  off_t bytes = lseek(file, 0, SEEK_END);
  void *at = bytes < (off_t)SPOOL_HEAD_BYTES
                 ? MAP_FAILED
                 : mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (at == MAP_FAILED) return;
  struct spool *found = at;
  uint64_t wanted = SPOOL_HEAD_BYTES + (uint64_t)found->chunks * (sizeof(struct chunk_head) + found->chunk_bytes);
  uint32_t nobody = 0;
  if (found->magic != SPOOL_MAGIC || wanted > (uint64_t)bytes || found->chunk_bytes < 4 * EVENT_BYTES) {
    munmap(at, (size_t)bytes);
  } else if (!atomic_compare_exchange_strong(&found->process, &nobody, (uint32_t)getpid())) {
    /* This is the program after exec, or another process. Direct children were already counted when they started. */
    if (nobody == (uint32_t)getpid())
      atomic_store(&found->is_replaced, 1);
    else if (nobody != (uint32_t)getppid())
      atomic_fetch_add(&found->others, 1);
    munmap(at, (size_t)bytes);
  } else {
    spool = counted_in = found;
  }
}

static inline bool spool_is_open(void) { return spool != &no_spool; }

/* Called before a fork. The child might count itself too late, for example if the program exits through daemon. */
static void spool_forks(void) { atomic_fetch_add(&counted_in->others, 1); }

/* Called in a child, which is another process and is not recorded. */
static void spool_leave(void) { spool = &no_spool; }

static inline uint64_t next_ticket(void) { return atomic_fetch_add(&spool->tickets, 1) + 1; }

static void recorder_publish(struct recorder *of) {
  atomic_store_explicit(&of->head->used, (uint32_t)(of->at - of->start), memory_order_release);
}

/* Passes the full chunk to the command. */
static void recorder_give(struct recorder *of) {
  if (of->head == NULL) return;
  recorder_publish(of);
  atomic_store_explicit(&of->head->state, FULL, memory_order_release);
  of->head = NULL;
  of->at = of->limit = of->start = NULL;
}

/* Takes a free chunk, and waits while the command has not caught up. Returns false if no chunk will ever be free. */
static bool recorder_take(struct recorder *of) {
  for (uint32_t round = 0;; round++) {
    /* Prefer the same few chunks: they are in the cache, and no other memory is touched. Try all chunks if other
     * threads have taken these. */
    uint32_t reach = round < NEAR_ROUNDS && NEAR_CHUNKS < spool->chunks ? NEAR_CHUNKS : spool->chunks;
    bool will_be_free = false;
    for (uint32_t i = 0; i < reach; i++) {
      uint32_t number = (of->id * 7 + i) % spool->chunks;
      struct chunk_head *head = &spool_heads()[number];
      uint32_t is_free = FREE;
      uint32_t state = atomic_load_explicit(&head->state, memory_order_relaxed);
      will_be_free |= state == FULL;
      if (state != FREE || !atomic_compare_exchange_strong(&head->state, &is_free, FILLING)) continue;
      head->thread = of->id;
      head->order = of->order++;
      atomic_store_explicit(&head->used, 0, memory_order_release);
      of->head = head;
      of->start = of->at = spool_chunk(number);
      of->limit = of->start + spool->chunk_bytes - EVENT_BYTES;
      /* Each chunk defines its sites again, so that it can be read independently. */
      of->generation += 1ull << 48;
      if (of->generation == 0) {
        of->generation = 1ull << 48;
        __builtin_memset(of->sites, 0, sizeof of->sites);
      }
      return true;
    }
    if (!will_be_free && reach < spool->chunks) {
      round = NEAR_ROUNDS;
      continue;
    }
    /* The command has exited, or other threads are filling all chunks. */
    if (kill((pid_t)spool->command, 0) != 0 && errno == ESRCH) return false;
    if (round > 8000) return false;
    struct timespec pause = {0, 250000};
    nanosleep(&pause, NULL);
  }
}

/* Makes room for one event. */
static bool recorder_room(struct recorder *of) {
  if (__builtin_expect(of->at < of->limit, 1)) return true;
  if (of->is_dead) return false;
  recorder_give(of);
  if (recorder_take(of)) return true;
  of->is_dead = true;
  of->window = 0;
  atomic_fetch_add(&spool->threads_lost, 1);
  return false;
}

static inline void put_u16(struct recorder *of, uint16_t value) {
  __builtin_memcpy(of->at, &value, 2);
  of->at += 2;
}

static inline void put_u64(struct recorder *of, uint64_t value) {
  __builtin_memcpy(of->at, &value, 8);
  of->at += 8;
}

/* Writes an event with some words. */
static void recorder_event(struct recorder *of, enum event kind, const uint64_t *words, uint32_t count) {
  if (count > EVENT_WORDS || !recorder_room(of)) return;
  put_u16(of, (uint16_t)(kind << 4 | EVENT));
  put_u16(of, (uint16_t)count);
  for (uint32_t i = 0; i < count; i++) put_u64(of, words[i]);
  recorder_publish(of);
}

/* Reports that events are missing since the last one. */
static void recorder_gap(struct recorder *of, uint32_t window) {
  of->window = window;
  uint64_t words[] = {window, of->lost};
  atomic_fetch_add(&spool->events_lost, of->lost);
  of->lost = 0;
  recorder_event(of, GAP, words, 2);
}

/* Defines the site of an instruction, together with its first access. */
static __attribute__((noinline)) void recorder_site(struct recorder *of, struct site *site, uint64_t key, uint64_t address,
                                                    uint64_t pc, uint32_t kind, uint32_t size) {
  site->key = key;
  site->last = address;
  put_u16(of, (uint16_t)((site - of->sites) << 4 | SITE));
  put_u64(of, pc);
  put_u64(of, address);
  *of->at++ = (uint8_t)kind;
  *of->at++ = (uint8_t)size;
}

static inline uint64_t recorder_key(const struct recorder *of, uint64_t pc, uint32_t kind) {
  return pc ^ of->generation ^ (uint64_t)(kind & 7) << 44;
}

/* Records an access. The caller has checked that the window is open. `size` and `before`, the number of instructions
 * before the access, are evaluated only if the site is new to the chunk. */
#define recorder_access(of, address, pc, kind, size, before)                                                        \
  do {                                                                                                         \
    if (__builtin_expect((of)->at >= (of)->limit, 0) && !recorder_room(of)) break;                             \
    uint64_t key_ = recorder_key(of, pc, kind);                                                                \
    struct site *site_ = recorder_site_of(of, pc, kind);                                                       \
    if (__builtin_expect(site_->key == key_, 1))                                                               \
      recorder_again(of, site_, address);                                                                      \
    else                                                                                                       \
      recorder_site(of, site_, key_, address, pc, (kind) | (before) << BEFORE_SHIFT, size);                    \
    recorder_publish(of);                                                                                      \
  } while (0)

static inline __attribute__((always_inline)) struct site *recorder_site_of(struct recorder *of, uint64_t pc, uint32_t kind) {
  return &of->sites[(pc ^ pc >> 12 ^ (kind & 3) << 11) & (SITES - 1)];
}

/* The encoding of an address difference by its number of bits, including the sign: the code, and the bytes of the
 * event. */
static const struct difference {
  uint8_t code, bytes;
} differences[65] = {
#define BITS_8(from, code, bytes)                                                                                       \
  [from] = {code, bytes}, [from + 1] = {code, bytes}, [from + 2] = {code, bytes}, [from + 3] = {code, bytes},           \
  [from + 4] = {code, bytes}, [from + 5] = {code, bytes}, [from + 6] = {code, bytes}, [from + 7] = {code, bytes}
    [0] = {SAME, 2},
    BITS_8(1, NEAR_8, 3),
    BITS_8(9, NEAR_16, 4),
    BITS_8(17, NEAR_32, 6),
    BITS_8(25, NEAR_32, 6),
    BITS_8(33, FAR, 10),
    BITS_8(41, FAR, 10),
    BITS_8(49, FAR, 10),
    BITS_8(57, FAR, 10),
#undef BITS_8
};

/* Records a further access by a known site. There is no branch on the code, because it could not be predicted. All
 * eight bytes are written, and the next event overwrites the unused ones. */
static inline __attribute__((always_inline)) void recorder_again(struct recorder *of, struct site *site, uint64_t address) {
  uint8_t *at = of->at;
  int64_t delta = (int64_t)(address - site->last);
  site->last = address;
  /* The topmost bits are lost, but no address uses them. */
  uint64_t folded = (uint64_t)delta << 1 ^ (uint64_t)(delta >> 63);
  struct difference as = differences[63 - __builtin_clzll(folded << 1 | 1)];
  uint16_t word = (uint16_t)((site - of->sites) << 4 | as.code);
  __builtin_memcpy(at, &word, 2);
  __builtin_memcpy(at + 2, &delta, 8);
  of->at = at + as.bytes;
}

/* Allocates a new thread's recorder with memory from the kernel. */
static struct recorder *recorder_new(uint32_t id) {
  void *at = mmap(NULL, sizeof(struct recorder), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return NULL;
  struct recorder *of = at;
  of->id = id;
  /* No window is open to the recorder before its thread has been reported. */
  of->window = 0;
  of->ready = NOT_READY;
  return of;
}

#endif
