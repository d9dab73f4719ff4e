/* Two threads count in one line; then a file says so, and the program waits to be ended. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static struct {
  long left, right;
} counts;

static void *count(void *at) {
  volatile long *own = at;
  for (int i = 0; i < 20000; i++) *own += 1;
  return NULL;
}

int main(void) {
#ifdef STUBBORN
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
#endif
  pthread_t other;
  if (pthread_create(&other, NULL, count, &counts.left) != 0) return 1;
  count(&counts.right);
  pthread_join(other, NULL);
  fclose(fopen("ready", "w"));
  for (;;) pause();
}
