/* Direct reads of 4 KiB from block devices: one thread for each CPU, pinned there, on the devices in turn.
 * Usage: reads COUNT DEVICE... The recorder's window is open while they run. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_THREADS 1024
#define BLOCK 4096
#define BLOCKS 1024
#define OPEN_WINDOW() __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00,0x01,0xde,0xc0,0x7a" ::: "memory")
#define CLOSE_WINDOW() __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00,0x00,0xde,0xc0,0x7a" ::: "memory")

static char **devices;
static int devices_count, reads;
static pthread_barrier_t begin;
static int failed;

static void *reads_blocks(void *word) {
  long number = (long)word;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)number, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) perror("sched_setaffinity");
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
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  pthread_t threads[MOST_THREADS];
  if (cpus > MOST_THREADS) cpus = MOST_THREADS;
  pthread_barrier_init(&begin, NULL, (unsigned)cpus + 1);
  for (long i = 0; i < cpus; i++)
    if (pthread_create(&threads[i], NULL, reads_blocks, (void *)i) != 0) {
      perror("pthread_create");
      return 1;
    }
  OPEN_WINDOW();
  pthread_barrier_wait(&begin);
  for (long i = 0; i < cpus; i++) pthread_join(threads[i], NULL);
  CLOSE_WINDOW();
  printf("%d reads by each of %ld threads on %d devices\n", reads, cpus, devices_count);
  return failed;
}
