/* Starts another program by the requested call and continues, or replaces itself by the other program. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
volatile int done;

static int waited(pid_t child) {
  int status;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 7 : 1;
}

int main(int count, char **words) {
  const char *how = count > 1 ? words[1] : "";
  char *none[] = {"true", NULL}, *absent[] = {"absent", NULL};
  done = 1;
  if (strcmp(how, "fork") == 0) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    return waited(child);
  }
  if (strcmp(how, "fork and exec") == 0) {
    pid_t child = fork();
    if (child == 0) _exit(execvp("true", none));
    return waited(child);
  }
  if (strcmp(how, "fork and leave") == 0) {
    if (fork() == 0) sleep(1);
    _exit(7);
  }
  if (strcmp(how, "vfork") == 0) {
    pid_t child = vfork();
    if (child == 0) _exit(execvp("true", none));
    return waited(child);
  }
  if (strcmp(how, "spawn") == 0) {
    pid_t child;
    return posix_spawnp(&child, "true", NULL, NULL, none, environ) == 0 ? waited(child) : 1;
  }
  if (strcmp(how, "system") == 0) return system("true") == 0 ? 7 : 1;
  if (strcmp(how, "popen") == 0) return pclose(popen("true", "r")) == 0 ? 7 : 1;
  if (strcmp(how, "exec") == 0) execlp("sh", "sh", "-c", "exit 7", (char *)NULL);
  if (strcmp(how, "itself") == 0) execl("/proc/self/exe", words[0], (char *)NULL);
  if (strcmp(how, "absent") == 0) return execv("/absent", absent) == -1 && execl("/absent", "a", "b", (char *)NULL) == -1 ? 7 : 1;
  return 7;
}
