/* The spool: shared memory through which a recorded program hands its events to `coreshard record`.
 *
 * Format and protocol are those of crates/coreshard-trace/src/recording/README.md; both engines use this file.
 *
 * Rules:
 * 1. A chunk has one owner at a time: the thread that fills it (FILLING), then the command that takes it (FULL), then
 *    nobody (FREE). The owner alone writes it, and gives it on by a release store of its state.
 * 2. A chunk's `used` is stored after the bytes that it counts, so what was stored can be read after any crash.
 * 3. Nothing here takes memory or locks of the program's.
 * 4. A thread that is in the recorder already, which a signal's handler can be, records nothing and counts it.
 */
#ifndef CORESHARD_SPOOL_H
#define CORESHARD_SPOOL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPOOL_MAGIC 0x314c4f4f50534343ull /* "CCSPOOL1" */
#define SPOOL_HEAD_BYTES 4096u
#define SITES 4096u
#define STACK_DEPTH 256u
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
  /* The number of the window that is open; 0 while none is. */
  _Atomic uint32_t window;
  _Atomic uint32_t threads;
  /* The process that is recorded; others find it taken. */
  _Atomic uint32_t process;
  _Atomic uint32_t others;
  _Atomic uint32_t threads_lost;
  uint32_t command;
  _Atomic uint64_t tickets;
  _Atomic uint64_t events_lost;
};

enum access_kind { LOAD = 0, STORE = 1, MODIFY = 2, IS_ATOMIC = 4 };

enum code { SAME = 0, NEAR_8 = 1, NEAR_16 = 2, NEAR_32 = 3, FAR = 4, SITE = 5, EVENT = 6 };

enum event {
  THREAD_START = 1,
  THREAD_CREATE = 2,
  THREAD_JOIN = 3,
  THREAD_EXIT = 4,
  LOCK = 5,
  UNLOCK = 6,
  WAIT_END = 7,
  WAKE = 8,
  ALLOC = 9,
  FREED = 10,
  STACK = 11,
  RANGE = 12,
  GAP = 13,
  MODULE = 14,
  INSTRUCTIONS = 15,
};

struct site {
  uint64_t key;
  uint64_t last;
};

struct recorder {
  uint8_t *at;
  uint8_t *limit;
  uint8_t *start;
  struct chunk_head *head;
  uint64_t generation; /* of `sites`, in the bits above any address */
  uint32_t window;
  bool is_busy;
  /* What it calls itself is not missing. */
  bool is_quiet;
  bool is_dead;
  uint32_t id;
  uint32_t order;
  uint32_t depth;
  uint64_t lost;
  uint64_t stack[STACK_DEPTH];
  struct site sites[SITES];
};

static struct spool no_spool;
/* Never null. */
static struct spool *spool = &no_spool;

static inline struct chunk_head *spool_heads(void) {
  return (struct chunk_head *)((uint8_t *)spool + SPOOL_HEAD_BYTES);
}

static inline uint8_t *spool_chunk(uint32_t number) {
  return (uint8_t *)spool + SPOOL_HEAD_BYTES + (size_t)spool->chunks * sizeof(struct chunk_head) +
         (size_t)number * spool->chunk_bytes;
}

/* Opens the spool that the environment names; without one nothing is recorded. */
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
    atomic_fetch_add(&found->others, 1);
    munmap(at, (size_t)bytes);
  } else {
    spool = found;
  }
}

static inline bool spool_is_open(void) { return spool != &no_spool; }

static inline uint64_t next_ticket(void) { return atomic_fetch_add(&spool->tickets, 1) + 1; }

static void recorder_publish(struct recorder *of) {
  atomic_store_explicit(&of->head->used, (uint32_t)(of->at - of->start), memory_order_release);
}

/* Gives the chunk on. */
static void recorder_give(struct recorder *of) {
  if (of->head == NULL) return;
  recorder_publish(of);
  atomic_store_explicit(&of->head->state, FULL, memory_order_release);
  of->head = NULL;
  of->at = of->limit = of->start = NULL;
}

/* Takes a free chunk; waits while the command has not kept up. False where nobody will ever free one. */
static bool recorder_take(struct recorder *of) {
  for (uint32_t round = 0;; round++) {
    for (uint32_t i = 0; i < spool->chunks; i++) {
      uint32_t number = (of->id * 7 + of->order + i) % spool->chunks;
      struct chunk_head *head = &spool_heads()[number];
      uint32_t is_free = FREE;
      if (atomic_load_explicit(&head->state, memory_order_relaxed) != FREE ||
          !atomic_compare_exchange_strong(&head->state, &is_free, FILLING))
        continue;
      head->thread = of->id;
      head->order = of->order++;
      atomic_store_explicit(&head->used, 0, memory_order_release);
      of->head = head;
      of->start = of->at = spool_chunk(number);
      of->limit = of->start + spool->chunk_bytes - EVENT_BYTES;
      /* What a chunk says of instructions holds for it alone, so that each can be read by itself. */
      of->generation += 1ull << 48;
      if (of->generation == 0) {
        of->generation = 1ull << 48;
        __builtin_memset(of->sites, 0, sizeof of->sites);
      }
      return true;
    }
    /* The command has gone, or all chunks are being filled by other threads. */
    if (kill((pid_t)spool->command, 0) != 0 && errno == ESRCH) return false;
    if (round > 20000) return false;
    struct timespec pause = {0, 100000};
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

/* An event of some words. */
static void recorder_event(struct recorder *of, enum event kind, const uint64_t *words, uint32_t count) {
  if (count > EVENT_WORDS || !recorder_room(of)) return;
  put_u16(of, (uint16_t)(kind << 4 | EVENT));
  put_u16(of, (uint16_t)count);
  for (uint32_t i = 0; i < count; i++) put_u64(of, words[i]);
  recorder_publish(of);
}

/* Says that something is missing since the last event. */
static void recorder_gap(struct recorder *of, uint32_t window) {
  of->window = window;
  uint64_t words[] = {window, of->lost};
  atomic_fetch_add(&spool->events_lost, of->lost);
  of->lost = 0;
  recorder_event(of, GAP, words, 2);
}

/* An access; the caller has seen to it that the window is open. */
static inline __attribute__((always_inline)) void recorder_access(struct recorder *of, uint64_t address, uint64_t pc,
                                                                  uint32_t kind, uint32_t size) {
  if (__builtin_expect(of->at >= of->limit, 0) && !recorder_room(of)) return;
  uint32_t number = (uint32_t)(pc ^ pc >> 12) & (SITES - 1);
  struct site *site = &of->sites[number];
  uint64_t key = pc ^ of->generation;
  uint8_t *at = of->at;
  if (__builtin_expect(site->key == key, 1)) {
    int64_t delta = (int64_t)(address - site->last);
    site->last = address;
    uint16_t word = (uint16_t)(number << 4);
    if (delta == 0) {
      __builtin_memcpy(at, &word, 2);
      at += 2;
    } else if (delta == (int8_t)delta) {
      word |= NEAR_8;
      __builtin_memcpy(at, &word, 2);
      at[2] = (uint8_t)delta;
      at += 3;
    } else if (delta == (int16_t)delta) {
      int16_t near = (int16_t)delta;
      word |= NEAR_16;
      __builtin_memcpy(at, &word, 2);
      __builtin_memcpy(at + 2, &near, 2);
      at += 4;
    } else if (delta == (int32_t)delta) {
      int32_t near = (int32_t)delta;
      word |= NEAR_32;
      __builtin_memcpy(at, &word, 2);
      __builtin_memcpy(at + 2, &near, 4);
      at += 6;
    } else {
      word |= FAR;
      __builtin_memcpy(at, &word, 2);
      __builtin_memcpy(at + 2, &delta, 8);
      at += 10;
    }
  } else {
    site->key = key;
    site->last = address;
    uint16_t word = (uint16_t)(number << 4 | SITE);
    __builtin_memcpy(at, &word, 2);
    __builtin_memcpy(at + 2, &pc, 8);
    __builtin_memcpy(at + 10, &address, 8);
    at[18] = (uint8_t)kind;
    at[19] = (uint8_t)size;
    at += 20;
  }
  of->at = at;
  recorder_publish(of);
}

/* A new thread's recorder, with memory from the kernel. */
static struct recorder *recorder_new(uint32_t id) {
  void *at = mmap(NULL, sizeof(struct recorder), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return NULL;
  struct recorder *of = at;
  of->id = id;
  /* Until it has said so, no window is open to it. */
  of->window = 0;
  return of;
}

#endif
