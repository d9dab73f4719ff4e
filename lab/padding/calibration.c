/* The cost of a cache line between two CPUs of the host, measured without the cases. WHAT selects the program: 0, both threads add
 * to one word; 1, they hand a word to and fro, `times` transfers in all; 2, each adds to its own; 3, each adds to its own without
 * atomics; 4, both add to one word without atomics. */
#include <stdatomic.h>

static struct {
  _Alignas(128) _Atomic long word;
} words[2];

void prepare(void) {}

void bump(int thread, long times) {
  for (long i = 0; i < times; i++) {
#if WHAT == 0
    atomic_fetch_add_explicit(&words[0].word, 1, memory_order_relaxed);
    (void)thread;
#elif WHAT == 1
    if (i % 2 != thread) continue;
    long now = i % 2, next = 1 - now;
    while (!atomic_compare_exchange_weak(&words[0].word, &now, next)) now = i % 2;
#elif WHAT == 2
    atomic_fetch_add_explicit(&words[thread].word, 1, memory_order_relaxed);
#else
    *(volatile long *)&words[WHAT == 3 ? thread : 0].word += 1;
#endif
  }
}
