/* Runs a program on one CPU and prints the processor time of each of its threads, in nanoseconds.
 *
 * On one CPU, no thread waits for a line that another CPU has, so this is the program's own pace. Time slices are short, and a
 * process that wakes up often makes the kernel look at them, so that a thread that spins until another one continues wastes
 * little. The threads are those of the process itself, in the order of their creation; child processes are not counted. The
 * program's output is discarded.
 *
 * Usage: coreshard_pace PROGRAM ARGUMENTS...
 * The status is 0 if the program exited, with any status.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 65536
#define SLICE_NS 100000
#define OPTIONS (PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

static struct {
  pid_t id;
  unsigned long long ns;
} threads[MOST_THREADS];
static int count;

static void fails(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

/* The first CPU that the program may use. */
static void onto_one_cpu(void) {
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all) != 0) fails("sched_getaffinity");
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) fails("sched_setaffinity");
}

/* Kernels before Linux 6.12 ignore it. */
static void with_short_slices(void) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes = {0};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER) return;
  attributes.size = sizeof attributes;
  attributes.runtime = SLICE_NS;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/* Wakes up at the end of each slice. Otherwise slices end at the kernel's next tick, up to 4 ms later. */
static pid_t ticks(void) {
  pid_t ticker = fork();
  if (ticker != 0) return ticker;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK, 1);
  onto_one_cpu();
  struct timespec pause = {0, SLICE_NS};
  for (;;) nanosleep(&pause, NULL);
}

static int place_of(pid_t id) {
  for (int at = 0; at < count; at++)
    if (threads[at].id == id) return at;
  if (count == MOST_THREADS) return -1;
  threads[count].id = id;
  return count++;
}

/* The processor time of a thread that is about to exit. */
static void note_exit(pid_t process, pid_t id) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", process, id);
  FILE *file = fopen(path, "r");
  int at = place_of(id);
  if (file != NULL && at >= 0 && fscanf(file, "%llu", &threads[at].ns) != 1) threads[at].ns = 0;
  if (file != NULL) fclose(file);
}

static void starts(char **words, int go) {
  char byte;
  if (read(go, &byte, 1) != 1) _exit(127);
  int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, 1);
  dup2(nowhere, 2);
  execvp(words[0], words);
  _exit(127);
}

int main(int arguments, char **words) {
  int go[2], status;
  if (arguments < 2) return 2;
  if (pipe2(go, O_CLOEXEC) != 0) fails("pipe");
  pid_t child = fork();
  if (child < 0) fails("fork");
  if (child == 0) {
    onto_one_cpu();
    with_short_slices();
    starts(words + 1, go[0]);
  }
  if (ptrace(PTRACE_SEIZE, child, 0, OPTIONS) != 0) {
    int error = errno;
    kill(child, SIGKILL);
    errno = error;
    fails("ptrace");
  }
  place_of(child);
  pid_t ticker = ticks();
  if (write(go[1], "", 1) != 1) fails("write");
  for (;;) {
    pid_t id = waitpid(-1, &status, __WALL);
    if (id < 0) fails("waitpid");
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (id == child) break;
      continue;
    }
    int event = status >> 16, signal = WSTOPSIG(status), is_stopped = 0;
    unsigned long message = 0;
    switch (event) {
    case PTRACE_EVENT_CLONE:
      ptrace(PTRACE_GETEVENTMSG, id, 0, &message);
      place_of((pid_t)message);
      break;
    case PTRACE_EVENT_EXIT:
      note_exit(child, id);
      break;
    case PTRACE_EVENT_STOP:
      is_stopped = signal != SIGTRAP;
      break;
    }
    if (is_stopped)
      ptrace(PTRACE_LISTEN, id, 0, 0);
    else
      ptrace(PTRACE_CONT, id, 0, event == 0 ? signal : 0);
  }
  if (ticker > 0) kill(ticker, SIGKILL);
  for (int at = 0; at < count; at++) printf("%llu\n", threads[at].ns);
  if (WIFEXITED(status)) return 0;
  fprintf(stderr, "signal %d ended it\n", WTERMSIG(status));
  return 1;
}
