/* A counter of 8 bytes for each thread, in an array from the heap. */
#include <stdlib.h>
#ifdef MENDED
#define STEP 8
#else
#define STEP 1
#endif

static volatile long *hits;

void prepare(void) { hits = calloc(128, sizeof *hits); }

void bump(int thread, long times) {
  volatile long *mine = &hits[thread * STEP];
  for (long i = 0; i < times; i++) *mine += 1;
}
