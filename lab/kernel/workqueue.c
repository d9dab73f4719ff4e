/* Makes workqueue_module queue items. Usage: workqueue SCOPE COUNT: each CPU queues COUNT items on a queue whose affinity
 * scope is SCOPE. The recorder's window is open meanwhile. */
#include "window.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define SCOPE "/sys/devices/virtual/workqueue/coreshard/affinity_scope"
#define RUN "/sys/module/workqueue_module/parameters/run"
/* Until every pool has its workers. */
#define FIRST_ITEMS "4"

static int writes(const char *path, const char *text) {
  int file = open(path, O_WRONLY);
  if (file < 0 || write(file, text, strlen(text)) < 0) {
    perror(path);
    return 1;
  }
  return close(file);
}

int main(int count, char **words) {
  if (count != 3) {
    fprintf(stderr, "usage: workqueue SCOPE COUNT\n");
    return 2;
  }
  if (access(SCOPE, F_OK) != 0)
    printf("this kernel has no scopes: one pool for each node\n");
  else if (writes(SCOPE, words[1]) != 0)
    return 1;
  if (writes(RUN, FIRST_ITEMS) != 0) return 1;
  OPEN_WINDOW();
  int failed = writes(RUN, words[2]);
  CLOSE_WINDOW();
  printf("%s items by each of %ld CPUs, scope %s\n", words[2], sysconf(_SC_NPROCESSORS_ONLN), words[1]);
  return failed;
}
