/* Small programs with known remedies, for lab/predict_padding.py. CASE selects one, and MENDED its remedy. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef MENDED
#define OWN_LINE _Alignas(64)
#define APART(bytes) (((bytes) + 63) / 64 * 64)
#else
#define OWN_LINE
#define APART(bytes) (bytes)
#endif

static unsigned long next(unsigned long *seed) { return *seed = *seed * 6364136223846793005ul + 1442695040888963407ul; }

/* Work between two accesses: each step is a multiplication that waits for the one before it. */
static unsigned long work(unsigned long seed, int steps) {
  for (int step = 0; step < steps; step++) next(&seed);
  return seed;
}

#if CASE == 1 || CASE == 2 || CASE == 3 /* relaxed atomics, without work between them and with some */
static _Alignas(64) struct {
  OWN_LINE atomic_long sent;
  OWN_LINE atomic_long received;
} counts;
void prepare(void) {}
void bump(int thread, long times) {
  atomic_long *mine = thread == 0 ? &counts.sent : &counts.received;
  unsigned long seed = (unsigned long)thread;
  for (long i = 0; i < times; i++) {
    atomic_fetch_add_explicit(mine, 1 + (long)(seed & 1), memory_order_relaxed);
    seed = work(seed, CASE == 1 ? 0 : CASE == 2 ? 20 : 100);
  }
}

#elif CASE == 4 /* statistics of 40 bytes for each thread, in an array from the heap */
struct statistics {
  long count, sum, least, most, last;
  char rest[APART(40) - 40];
};
static volatile struct statistics *all;
void prepare(void) {
  all = aligned_alloc(64, 16 * 64);
  memset((void *)all, 0, 16 * 64);
}
void bump(int thread, long times) {
  volatile struct statistics *mine = &all[thread];
  unsigned long seed = (unsigned long)thread;
  for (long i = 0; i < times; i++) {
    long value = (long)(next(&seed) >> 40);
    mine->count++;
    mine->sum += value;
    if (value < mine->least) mine->least = value;
    if (value > mine->most) mine->most = value;
    mine->last = value;
  }
}

#elif CASE == 5 /* a limit that one thread reads, beside a counter of another thread */
static _Alignas(64) struct {
  volatile long limit;
  OWN_LINE volatile long used;
} budget = {1000, 0};
static volatile long results[2][16];
void prepare(void) {}
void bump(int thread, long times) {
  unsigned long seed = 1;
  for (long i = 0; i < times; i++) {
    if (thread == 0) {
      seed = work(seed, 10) + (unsigned long)budget.limit;
    } else {
      seed = work(seed, 10);
      budget.used++;
    }
  }
  results[thread][8] = (long)seed;
}

#elif CASE == 6 /* spin locks of neighbouring buckets, each used by one thread */
static _Alignas(64) struct bucket {
  OWN_LINE atomic_int lock;
  int count;
} buckets[2];
void prepare(void) {}
void bump(int thread, long times) {
  struct bucket *mine = &buckets[thread];
  for (long i = 0; i < times; i++) {
    while (atomic_exchange_explicit(&mine->lock, 1, memory_order_acquire)) {}
    *(volatile int *)&mine->count += 1;
    atomic_store_explicit(&mine->lock, 0, memory_order_release);
  }
}

#elif CASE == 7 /* mutexes of neighbouring buckets, each used by one thread */
static _Alignas(64) struct bucket {
  OWN_LINE pthread_mutex_t lock;
  long count;
} buckets[2];
void prepare(void) {
  for (int i = 0; i < 2; i++) pthread_mutex_init(&buckets[i].lock, 0);
}
void bump(int thread, long times) {
  struct bucket *mine = &buckets[thread];
  for (long i = 0; i < times; i++) {
    pthread_mutex_lock(&mine->lock);
    mine->count++;
    pthread_mutex_unlock(&mine->lock);
  }
}

#elif CASE == 8 /* a histogram of eight bins that both threads count in */
static _Alignas(64) struct bin {
  OWN_LINE atomic_long count;
} bins[8];
void prepare(void) {}
void bump(int thread, long times) {
  unsigned long seed = (unsigned long)thread + 1;
  for (long i = 0; i < times; i++)
    atomic_fetch_add_explicit(&bins[next(&seed) >> 61].count, 1, memory_order_relaxed);
}

#elif CASE == 9 /* two globals side by side */
static _Alignas(64) volatile long sent = 1;
OWN_LINE static volatile long received = 1;
void prepare(void) {}
void bump(int thread, long times) {
  unsigned long seed = 1;
  for (long i = 0; i < times; i++) {
    seed = work(seed, 4);
    if (thread == 0) sent += 1 + (long)(seed & 1);
    else received += 1 + (long)(seed & 1);
  }
}

#elif CASE == 10 /* four fields of each thread in one struct */
static _Alignas(64) struct {
  volatile long in[4];
  OWN_LINE volatile long out[4];
} pair;
void prepare(void) {}
void bump(int thread, long times) {
  volatile long *mine = thread == 0 ? pair.in : pair.out;
  for (long i = 0; i < times; i++)
    for (int word = 0; word < 4; word++) mine[word] += i;
}

#elif CASE == 11 /* a flag of one byte for each thread */
static _Alignas(64) struct flag {
  OWN_LINE atomic_char is_set;
} flags[2];
void prepare(void) {}
void bump(int thread, long times) {
  unsigned long seed = 1;
  for (long i = 0; i < times; i++) {
    atomic_exchange_explicit(&flags[thread].is_set, (char)i, memory_order_acq_rel);
    seed = work(seed, 4);
    if (seed == 0) return;
  }
}

#elif CASE == 12 /* sums of doubles in an array, one for each thread */
static volatile double *sums;
void prepare(void) { sums = aligned_alloc(64, 1024); }
void bump(int thread, long times) {
  volatile double *mine = &sums[thread * (APART(8) / 8)];
  *mine = 0;
  for (long i = 0; i < times; i++) *mine += (double)i * 0.5;
}

#elif CASE == 13 /* small objects that the allocator puts on one line, each used by one thread */
struct node {
  atomic_long uses;
  long value;
};
static struct node *nodes[2];
void prepare(void) {
  /* The first is at the beginning of a line. */
  while (((size_t)(nodes[0] = malloc(sizeof(struct node))) & 63) > 16) {}
#ifdef MENDED
  nodes[1] = aligned_alloc(64, 64);
#else
  nodes[1] = malloc(sizeof(struct node));
#endif
}
void bump(int thread, long times) {
  for (long i = 0; i < times; i++) atomic_fetch_add_explicit(&nodes[thread]->uses, 1, memory_order_relaxed);
}

#elif CASE == 14 /* elements of 64 bytes that begin in the middle of a line */
struct slot {
  atomic_long first;
  long rest[6];
  atomic_long last;
};
static struct slot *slots;
void prepare(void) {
  char *at = aligned_alloc(64, 1024);
  memset(at, 0, 1024);
#ifdef MENDED
  slots = (struct slot *)at;
#else
  slots = (struct slot *)(at + 32);
#endif
}
void bump(int thread, long times) {
  for (long i = 0; i < times; i++) {
    atomic_fetch_add_explicit(&slots[thread].first, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&slots[thread].last, 1, memory_order_relaxed);
  }
}

#elif CASE == 15 /* the states of two generators */
static struct generator {
  OWN_LINE unsigned long state[2];
} _Alignas(64) generators[2] = {{{1, 2}}, {{3, 4}}};
static volatile unsigned long results[2][16];
void prepare(void) {}
void bump(int thread, long times) {
  volatile unsigned long *state = generators[thread].state;
  unsigned long sum = 0;
  for (long i = 0; i < times; i++) {
    unsigned long one = state[0], other = state[1];
    sum += one + other;
    one ^= one << 23;
    state[0] = other;
    state[1] = one ^ other ^ one >> 17 ^ other >> 26;
  }
  results[thread][8] = sum;
}

#elif CASE == 16 /* the indices of a ring */
enum { SLOTS = 64 };
static _Alignas(64) struct {
  OWN_LINE atomic_long head;
  OWN_LINE atomic_long tail;
  OWN_LINE long slots[SLOTS];
} ring;
static volatile long results[16];
void prepare(void) {}
void bump(int thread, long times) {
  long sum = 0;
  for (long item = 0; item < times; item++)
    if (thread == 0) {
      long head = atomic_load_explicit(&ring.head, memory_order_relaxed);
      while (head - atomic_load_explicit(&ring.tail, memory_order_acquire) == SLOTS) {}
      ring.slots[head % SLOTS] = item;
      atomic_store_explicit(&ring.head, head + 1, memory_order_release);
    } else {
      long tail = atomic_load_explicit(&ring.tail, memory_order_relaxed);
      while (atomic_load_explicit(&ring.head, memory_order_acquire) == tail) {}
      sum += ring.slots[tail % SLOTS];
      atomic_store_explicit(&ring.tail, tail + 1, memory_order_release);
    }
  results[8] = sum;
}

#elif CASE == 17 /* reference counts of neighbouring objects */
static _Alignas(64) struct object {
  OWN_LINE atomic_int references;
  int kind;
} objects[2];
void prepare(void) {}
void bump(int thread, long times) {
  for (long i = 0; i < times; i++) {
    atomic_fetch_add_explicit(&objects[thread].references, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&objects[thread].references, 1, memory_order_acq_rel);
  }
}

#elif CASE == 18 /* a struct on the stack of one of the threads */
struct results {
  OWN_LINE atomic_long found;
  OWN_LINE atomic_long missed;
};
static _Alignas(64) struct results *_Atomic shared;
static _Alignas(64) atomic_long turns;
void prepare(void) {}
static void count(atomic_long *mine, long times) {
  unsigned long seed = 1;
  for (long i = 0; i < times; i++) {
    seed = work(seed, 4);
    atomic_fetch_add_explicit(mine, 1 + (long)(seed >> 63), memory_order_relaxed);
  }
}
void bump(int thread, long times) {
  if (thread == 0) {
    _Alignas(64) struct results own = {0, 0};
    atomic_store(&shared, &own);
    count(&own.found, times);
    while (atomic_load(&turns) == 0) {}
    atomic_store(&turns, 0);
  } else {
    struct results *its;
    while ((its = atomic_exchange(&shared, NULL)) == NULL) {}
    count(&its->missed, times);
    atomic_store(&turns, 1);
  }
}

#elif CASE == 19 /* a sequence number that one thread writes, beside words that the other reads */
static _Alignas(64) struct {
  const void *volatile table;
  volatile long mask;
  OWN_LINE atomic_long sequence;
} index_of = {&index_of, 255, 0};
static volatile unsigned long result[16];
void prepare(void) {}
void bump(int thread, long times) {
  unsigned long seed = 1;
  for (long i = 0; i < times; i++)
    if (thread == 0) seed += (unsigned long)index_of.table ^ (next(&seed) & (unsigned long)index_of.mask);
    else atomic_fetch_add_explicit(&index_of.sequence, 1, memory_order_release);
  if (thread == 0) result[8] = seed;
}

#elif CASE == 20 /* compare-and-swap of a word of each thread */
static _Alignas(64) struct state {
  OWN_LINE atomic_ulong word;
} states[2];
void prepare(void) {}
void bump(int thread, long times) {
  for (long i = 0; i < times; i++) {
    unsigned long now = atomic_load_explicit(&states[thread].word, memory_order_relaxed);
    atomic_compare_exchange_strong(&states[thread].word, &now, now + 3);
  }
}

#elif CASE == 21 /* padding that does nothing: both threads add to one word */
static _Alignas(64) struct {
  OWN_LINE atomic_long total;
  OWN_LINE long unused;
} sum;
void prepare(void) {}
void bump(int thread, long times) {
  (void)thread;
  for (long i = 0; i < times; i++) atomic_fetch_add_explicit(&sum.total, 1, memory_order_relaxed);
}

#elif CASE == 22 /* padding that does nothing: each thread has a line already */
static _Alignas(64) struct own {
  atomic_long count;
  OWN_LINE long unused[7];
} owns[2];
void prepare(void) {}
void bump(int thread, long times) {
  unsigned long seed = 1;
  for (long i = 0; i < times; i++) {
    atomic_fetch_add_explicit(&owns[thread].count, 1, memory_order_relaxed);
    seed = work(seed, 10);
    if (seed == 0) return;
  }
}
#endif
