/* Lets the k-th call of one kind of C library functions fail, for a sweep over all k.
 *
 * FAIL_KIND is the kind, FAIL_FROM is k, FAIL_COUNT is how many calls fail from there on. The number of calls
 * is written to the file FAIL_CALLS when the process ends. Only calls from the program are counted: the C
 * library calls its own functions by other names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char *kind;
static unsigned long from, count;
static atomic_ulong calls;

__attribute__((constructor)) static void begin(void) {
  const char *k = getenv("FAIL_KIND"), *f = getenv("FAIL_FROM"), *c = getenv("FAIL_COUNT");
  kind = k ? k : "";
  from = f ? strtoul(f, 0, 10) : 0;
  count = c ? strtoul(c, 0, 10) : 1;
}

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("FAIL_CALLS");
  unsigned long n = atomic_load(&calls);
  kind = "";
  FILE *file = path ? fopen(path, "w") : 0;
  if (file) {
    fprintf(file, "%lu\n", n);
    fclose(file);
  }
}

/* Whether this call of the kind is one that fails. */
static int fails(const char *of_kind) {
  if (!kind || strcmp(kind, of_kind)) return 0;
  unsigned long at = atomic_fetch_add(&calls, 1) + 1;
  return from && at >= from && at - from < count;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg) {
  if (fails("thread")) return EAGAIN;
  return NEXT(pthread_create)(thread, attr, start, arg);
}

/* Only memory of files and rings, and large anonymous memory. Allocators and stacks of the C library do not call this
 * function. The standard library's signal stack is small; without it, the standard library would end the process. */
static int map_fails(size_t length, int flags) {
  return (!(flags & MAP_ANONYMOUS) || length >= 65536) && fails("map");
}
void *mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset) {
  if (map_fails(length, flags)) return errno = ENOMEM, MAP_FAILED;
  return NEXT(mmap)(at, length, prot, flags, fd, offset);
}
void *mmap64(void *at, size_t length, int prot, int flags, int fd, off64_t offset) {
  if (map_fails(length, flags)) return errno = ENOMEM, MAP_FAILED;
  return NEXT(mmap64)(at, length, prot, flags, fd, offset);
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
  if (fails("affinity")) return errno = EINVAL, -1;
  return NEXT(sched_setaffinity)(pid, size, set);
}
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
  if (fails("affinity")) return errno = EINVAL, -1;
  return NEXT(sched_getaffinity)(pid, size, set);
}

int setpriority(__priority_which_t which, id_t who, int value) {
  if (fails("priority")) return errno = EPERM, -1;
  return NEXT(setpriority)(which, who, value);
}
int sched_setscheduler(pid_t pid, int policy, const struct sched_param *param) {
  if (fails("priority")) return errno = EPERM, -1;
  return NEXT(sched_setscheduler)(pid, policy, param);
}

int open(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
  va_end(args);
  if (fails("open")) return errno = EMFILE, -1;
  return NEXT(open)(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
  va_end(args);
  if (fails("open")) return errno = EMFILE, -1;
  return NEXT(open64)(path, flags, mode);
}

ssize_t read(int fd, void *buffer, size_t length) {
  if (fails("read")) return errno = from % 2 ? EINTR : EIO, -1;
  return NEXT(read)(fd, buffer, length);
}
ssize_t pread64(int fd, void *buffer, size_t length, off64_t offset) {
  if (fails("read")) return errno = from % 2 ? EINTR : EIO, -1;
  return NEXT(pread64)(fd, buffer, length, offset);
}
ssize_t preadv64(int fd, const struct iovec *parts, int n, off64_t offset) {
  if (fails("read")) return errno = from % 2 ? EINTR : EIO, -1;
  return NEXT(preadv64)(fd, parts, n, offset);
}

/* Not to the standard streams: the load reports its result there. */
ssize_t write(int fd, const void *buffer, size_t length) {
  if (fd > 2 && fails("write")) return errno = ENOSPC, -1;
  return NEXT(write)(fd, buffer, length);
}
ssize_t pwrite64(int fd, const void *buffer, size_t length, off64_t offset) {
  if (fails("write")) return errno = ENOSPC, -1;
  return NEXT(pwrite64)(fd, buffer, length, offset);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int n, off64_t offset) {
  if (fails("write")) return errno = ENOSPC, -1;
  return NEXT(pwritev64)(fd, parts, n, offset);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  /* The clocks of threads have negative ids. */
  if (clock < 0 && fails("clock")) return errno = EINVAL, -1;
  return NEXT(clock_gettime)(clock, now);
}

long syscall(long number, ...) {
  long a[6];
  va_list args;
  va_start(args, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(args, long);
  va_end(args);
  switch (number) {
    case SYS_futex: {
      int op = a[1] & 0x7f;
      int is_wait = op == 0 || op == 9;
      /* A failed wake-up would wake no thread, and in the kernel it fails only for a bad address. So only
       * waits fail here, as they may at any time. */
      if (is_wait && fails("futex")) return errno = from % 2 ? EINTR : EAGAIN, -1;
      break;
    }
    case SYS_io_uring_setup:
      if (fails("ring")) return errno = ENOMEM, -1;
      break;
    case SYS_io_uring_enter:
      if (fails("ring")) return errno = from % 2 ? EINTR : EAGAIN, -1;
      break;
    case SYS_io_uring_register:
      if (fails("ring")) return errno = ENOMEM, -1;
      break;
    case SYS_sched_setaffinity:
    case SYS_sched_getaffinity:
      if (fails("affinity")) return errno = EINVAL, -1;
      break;
    case SYS_sched_setscheduler:
    case SYS_sched_setattr:
    case SYS_sched_getattr:
      if (fails("priority")) return errno = EPERM, -1;
      break;
    case SYS_mbind:
    case SYS_get_mempolicy:
      if (fails("policy")) return errno = EPERM, -1;
      break;
    case SYS_getpriority:
    case SYS_gettid:
      /* Cannot fail. */
      break;
    default:
      if (fails("system")) return errno = EPERM, -1;
  }
  return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
