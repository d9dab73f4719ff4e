/* A device with two counters side by side: one thread issues, another completes. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct device {
  void *queue;
  long issued;
  long done;
  char name[40];
};

static void *issue(void *at) {
  struct device *device = at;
  for (int i = 0; i < 30000; i++) *(volatile long *)&device->issued += 1;
  return NULL;
}

static void *complete(void *at) {
  struct device *device = at;
  for (int i = 0; i < 30000; i++) *(volatile long *)&device->done += 1;
  return NULL;
}

int main(void) {
  struct device *device = aligned_alloc(64, sizeof *device);
  *device = (struct device){0};
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, issue, device);
  pthread_create(&threads[1], NULL, complete, device);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
#ifdef KILLED
  raise(SIGKILL);
#endif
  return device->issued == 30000 && device->done == 30000 ? 7 : 1;
}
