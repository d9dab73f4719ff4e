/* Direct reads of 4 KiB from block devices: one thread for each CPU, pinned there, on the devices in turn.
 * Usage: reads COUNT DEVICE... */
#include "window.h"

#include <fcntl.h>

#define BLOCK 4096
#define BLOCKS 1024

static char **devices;
static int devices_count, reads;
static int failed;

static void *reads_blocks(void *word) {
  long number = (long)word;
  run_on(number, 1, sysconf(_SC_NPROCESSORS_ONLN));
  const char *path = devices[number % devices_count];
  int file = open(path, O_RDONLY | O_DIRECT);
  void *buffer = NULL;
  if (file < 0 || posix_memalign(&buffer, BLOCK, BLOCK) != 0) {
    perror(path);
    failed = 1;
  }
  pthread_barrier_wait(&begin);
  for (int i = 0; file >= 0 && i < reads; i++)
    if (pread(file, buffer, BLOCK, (off_t)((number * 37 + i) % BLOCKS) * BLOCK) != BLOCK) {
      perror(path);
      failed = 1;
      break;
    }
  return NULL;
}

int main(int count, char **words) {
  if (count < 3) {
    fprintf(stderr, "usage: reads COUNT DEVICE...\n");
    return 2;
  }
  reads = atoi(words[1]);
  devices = words + 2;
  devices_count = count - 2;
  long threads = run_in_window(reads_blocks);
  printf("%d reads by each of %ld threads on %d devices\n", reads, threads, devices_count);
  return failed;
}
