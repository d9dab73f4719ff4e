/* Two counters in one struct. */
#include <stddef.h>
#ifdef MENDED
#define OWN_LINE _Alignas(64)
#else
#define OWN_LINE
#endif

static struct counters {
  OWN_LINE volatile long issued;
  OWN_LINE volatile long done;
} counters __attribute__((aligned(64)));

void prepare(void) {}

void bump(int thread, long times) {
  if (thread == 0)
    for (long i = 0; i < times; i++) counters.issued += 1;
  else
    for (long i = 0; i < times; i++) counters.done += 1;
}
