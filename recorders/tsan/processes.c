/* Counts other processes, and programs that replace this one. Neither is recorded.
 *
 * A child of fork is counted by a handler before it exists, and other children when they are started. The count is
 * reverted if fork returns no child or exec returns.
 */

#include <spawn.h>
#include <unistd.h>

#define MOST_ARGUMENTS 1024

/* The child of vfork shares its parent's memory and calls exec in it. */
static bool is_child(void) { return (uint32_t)getpid() != atomic_load(&spool->process); }

static void leaves(void) {
  if (!spool_is_open()) return;
  if (is_child())
    atomic_fetch_add(&spool->others, 1);
  else
    atomic_store(&spool->is_replaced, 1);
}

static int stays(int result) {
  int error = errno;
  if (spool_is_open()) {
    if (is_child())
      atomic_fetch_sub(&spool->others, 1);
    else
      atomic_store(&spool->is_replaced, 0);
  }
  errno = error;
  return result;
}

/* Look the functions up before there is a child, which may inherit locks that other threads held. */
#define FINDS(name) static __typeof__(name) *next_##name;
FINDS(execve)
FINDS(execv)
FINDS(execvp)
FINDS(execvpe)
FINDS(fexecve)

static void find_processes(void) {
  next_execve = NEXT(execve);
  next_execv = NEXT(execv);
  next_execvp = NEXT(execvp);
  next_execvpe = NEXT(execvpe);
  next_fexecve = NEXT(fexecve);
}

#define REPLACES(name, parameters, arguments)                                    \
  EXPORT int name parameters {                                                   \
    leaves();                                                                    \
    return stays(next_##name == NULL ? NEXT(name) arguments : next_##name arguments); \
  }
#define WORDS char *const words[]
#define VALUES char *const values[]
REPLACES(execve, (const char *path, WORDS, VALUES), (path, words, values))
REPLACES(execv, (const char *path, WORDS), (path, words))
REPLACES(execvp, (const char *file, WORDS), (file, words))
REPLACES(execvpe, (const char *file, WORDS, VALUES), (file, words, values))
REPLACES(fexecve, (int file, WORDS, VALUES), (file, words, values))

/* Puts the arguments into an array. */
#define LISTED(name, as, more, ...)                                                 \
  EXPORT int name(const char *path, const char *word, ...) {                        \
    char *words[MOST_ARGUMENTS + 1] = {(char *)(uintptr_t)word};                    \
    va_list rest;                                                                   \
    va_start(rest, word);                                                           \
    size_t count = 1;                                                               \
    while (count < MOST_ARGUMENTS && words[count - 1] != NULL) words[count++] = va_arg(rest, char *); \
    bool are_all = words[count - 1] == NULL;                                        \
    more;                                                                           \
    va_end(rest);                                                                   \
    if (!are_all) {                                                                 \
      errno = E2BIG;                                                                \
      return -1;                                                                    \
    }                                                                               \
    return as(path, words __VA_ARGS__);                                             \
  }
LISTED(execl, execv, (void)0)
LISTED(execlp, execvp, (void)0)
LISTED(execle, execve, char *const *values = va_arg(rest, char *const *), , values)

EXPORT pid_t fork(void) {
  pid_t child = NEXT(fork)();
  int error = errno;
  if (child < 0) atomic_fetch_sub(&counted_in->others, 1);
  errno = error;
  return child;
}

static void has_started(bool is_so) {
  if (is_so && spool_is_open()) atomic_fetch_add(&spool->others, 1);
}

#define SPAWNS(name)                                                                                              \
  EXPORT int name(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,                     \
                  const posix_spawnattr_t *attributes, WORDS, VALUES) {                                           \
    int error = NEXT(name)(child, path, actions, attributes, words, values);                                      \
    has_started(error == 0);                                                                                      \
    return error;                                                                                                 \
  }
SPAWNS(posix_spawn)
SPAWNS(posix_spawnp)

EXPORT int system(const char *command) {
  int status = NEXT(system)(command);
  has_started(command != NULL && status != -1);
  return status;
}

EXPORT FILE *popen(const char *command, const char *mode) {
  FILE *file = NEXT(popen)(command, mode);
  has_started(file != NULL);
  return file;
}
