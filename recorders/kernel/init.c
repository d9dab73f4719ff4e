/* The first program of a kernel that `coreshard kernel` boots: prepares the system, runs one command, and reports its
 * status.
 *
 * The guest shares one piece of memory with the command on the host, the channel: the memory of QEMU's device
 * ivshmem-plain, which a program maps through sysfs without a driver. crates/coreshard-cli/src/kernel/channel.rs is the
 * other side and has the same offsets.
 *
 * Rules:
 * 1. The guest writes `state`, `status`, `step`, `error` and the blobs; the host writes `go` alone.
 * 2. A state is stored after everything that it announces.
 * 3. A failure of any step is reported with the step and errno, and ends the guest.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAGIC 0x314c4e4843485343ull /* "CSHCHNL1" */
#define CHANNEL_HEAD 65536u
#define BLOBS 1024u

enum state { NOTHING, BEGUN, READY, RUNNING, ENDED, FAILED };
enum step { NO_STEP, MOUNT, CONFIG, MODULE, START, SYMBOLS, CHANNEL };

struct blob {
  uint64_t offset, bytes;
  char name[40];
};

struct channel {
  uint64_t magic;
  _Atomic uint32_t state;
  _Atomic uint32_t go;
  int32_t status;
  uint32_t step;
  int32_t error;
  uint32_t blobs_count;
  uint64_t bytes;
  /* Of the step that failed: a path. */
  char about[256];
  struct blob blobs[BLOBS];
};

_Static_assert(sizeof(struct channel) <= CHANNEL_HEAD, "the blobs' bytes begin behind the head");

static struct channel *channel;

/* 8-byte no-ops that the recorder knows: a window opens and closes. */
#if defined(__x86_64__)
#define OPEN_WINDOW() __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00,0x01,0xde,0xc0,0x7a" ::: "memory")
#define CLOSE_WINDOW() __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00,0x00,0xde,0xc0,0x7a" ::: "memory")
#else
#error "guests are x86-64"
#endif

static void power_off(void) {
  sync();
  reboot(RB_POWER_OFF);
  for (;;) pause();
}

static void fails(enum step step, const char *about) {
  int error = errno;
  fprintf(stderr, "coreshard: step %d failed: %s: %s\n", (int)step, about, strerror(error));
  if (channel != NULL) {
    channel->step = step;
    channel->error = error;
    snprintf(channel->about, sizeof channel->about, "%s", about);
    atomic_store(&channel->state, FAILED);
  }
  power_off();
}

static void mounted(const char *type, const char *place) {
  mkdir(place, 0755);
  if (mount(type, place, type, 0, NULL) != 0 && errno != EBUSY) fails(MOUNT, place);
}

static uint64_t number_in(const char *folder, const char *file) {
  char path[512], text[64] = {0};
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", folder, file);
  int from = open(path, O_RDONLY | O_CLOEXEC);
  if (from < 0) return 0;
  ssize_t bytes = read(from, text, sizeof text - 1);
  close(from);
  return bytes > 0 ? strtoull(text, NULL, 0) : 0;
}

static void find_channel(void) {
  DIR *folder = opendir("/sys/bus/pci/devices");
  struct dirent *entry;
  while (folder != NULL && (entry = readdir(folder)) != NULL) {
    if (number_in(entry->d_name, "vendor") != 0x1af4 || number_in(entry->d_name, "device") != 0x1110) continue;
    char path[512];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/enable", entry->d_name);
    int enable = open(path, O_WRONLY | O_CLOEXEC);
    if (enable >= 0) {
      if (write(enable, "1", 1) != 1) errno = 0;
      close(enable);
    }
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource2", entry->d_name);
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat found;
    if (file < 0 || fstat(file, &found) != 0) fails(CHANNEL, path);
    void *at = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED) fails(CHANNEL, path);
    struct channel *its = at;
    if (its->magic != MAGIC) { errno = EINVAL; fails(CHANNEL, "its mark"); };
    its->bytes = (uint64_t)found.st_size;
    channel = its;
    break;
  }
  if (folder != NULL) closedir(folder);
  if (channel == NULL) fails(CHANNEL, "/sys/bus/pci/devices: no ivshmem device");
}

/* Copies a file into the channel. */
static void tell_file(const char *path, const char *name) {
  if (channel->blobs_count >= BLOBS) return;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  uint64_t at = CHANNEL_HEAD;
  for (uint32_t i = 0; i < channel->blobs_count; i++) at = channel->blobs[i].offset + channel->blobs[i].bytes;
  at = (at + 63) & ~63ull;
  uint64_t used = 0;
  /* The kernel's files are copied by read alone, into ordinary memory first. */
  static char buffer[1 << 16];
  ssize_t more;
  while ((more = read(file, buffer, sizeof buffer)) > 0) {
    if (at + used + (uint64_t)more > channel->bytes) {
      errno = ENOSPC;
      fails(SYMBOLS, path);
    }
    memcpy((uint8_t *)channel + at + used, buffer, (size_t)more);
    used += (uint64_t)more;
  }
  if (more < 0) fails(SYMBOLS, path);
  close(file);
  struct blob *blob = &channel->blobs[channel->blobs_count];
  blob->offset = at;
  blob->bytes = used;
  snprintf(blob->name, sizeof blob->name, "%s", name);
  channel->blobs_count++;
}

static void tell_symbols(void) {
  int zero = open("/proc/sys/kernel/kptr_restrict", O_WRONLY | O_CLOEXEC);
  if (zero >= 0) {
    if (write(zero, "0", 1) != 1) fails(SYMBOLS, "/proc/sys/kernel/kptr_restrict");
    close(zero);
  }
  tell_file("/proc/kallsyms", "kallsyms");
  if (channel->blobs_count == 0 || channel->blobs[0].bytes == 0) fails(SYMBOLS, "/proc/kallsyms");
  tell_file("/proc/version", "version");
  DIR *folder = opendir("/sys/kernel/btf");
  struct dirent *entry;
  while (folder != NULL && (entry = readdir(folder)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    char path[300], name[300];
    snprintf(path, sizeof path, "/sys/kernel/btf/%s", entry->d_name);
    snprintf(name, sizeof name, "btf/%s", entry->d_name);
    tell_file(path, name);
  }
  if (folder != NULL) closedir(folder);
}

/* A file of words that end with a zero byte each; `count` says how many there are. */
static char **words_of(const char *path, size_t *count) {
  *count = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return calloc(1, sizeof(char *));
  struct stat found;
  if (fstat(file, &found) != 0) fails(CONFIG, path);
  size_t bytes = (size_t)found.st_size;
  char *text = calloc(bytes + 1, 1);
  if (text == NULL || read(file, text, bytes) != (ssize_t)bytes) fails(CONFIG, path);
  close(file);
  for (size_t i = 0; i < bytes; i++) *count += text[i] == 0;
  char **words = calloc(*count + 1, sizeof *words);
  if (words == NULL) fails(CONFIG, path);
  for (size_t i = 0; i < *count; i++) {
    words[i] = text;
    text += strlen(text) + 1;
  }
  return words;
}

/* Pairs of words: a module's file and its parameters. */
static void load_modules(void) {
  size_t count;
  char **words = words_of("/coreshard/modules", &count);
  for (size_t i = 0; i + 1 < count; i += 2) {
    int file = open(words[i], O_RDONLY | O_CLOEXEC);
    if (file < 0) fails(MODULE, words[i]);
    if (syscall(SYS_finit_module, file, words[i + 1], 0) != 0) fails(MODULE, words[i]);
    close(file);
  }
}

int main(void) {
  static const char *const places[][2] = {{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) mounted(places[i][0], places[i][1]);
  find_channel();
  atomic_store(&channel->state, BEGUN);
  size_t count, options;
  char **command = words_of("/coreshard/command", &count);
  char **asked = words_of("/coreshard/options", &options);
  if (count == 0) fails(CONFIG, "/coreshard/command");
  bool opens = false;
  load_modules();
  for (size_t i = 0; i < options; i++) {
    if (strcmp(asked[i], "symbols") == 0) tell_symbols();
    if (strcmp(asked[i], "window") == 0) opens = true;
  }
  atomic_store(&channel->state, READY);
  while (atomic_load(&channel->go) == 0) usleep(1000);
  if (setenv("PATH", "/bin:/sbin:/usr/bin:/usr/sbin", 1) != 0 || setenv("HOME", "/", 1) != 0) fails(START, "PATH");
  atomic_store(&channel->state, RUNNING);
  if (opens) OPEN_WINDOW();
  pid_t child = fork();
  if (child < 0) fails(START, command[0]);
  if (child == 0) {
    /* What comes from the host's input does not reach the guest. */
    int empty = open("/dev/null", O_RDONLY);
    if (empty >= 0) dup2(empty, STDIN_FILENO);
    execvp(command[0], command);
    int error = errno;
    fprintf(stderr, "coreshard: %s: %s\n", command[0], strerror(error));
    _exit(error == ENOENT ? 127 : 126);
  }
  int status = 0;
  for (;;) {
    pid_t ended = wait(&status);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
  }
  if (opens) CLOSE_WINDOW();
  channel->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  fflush(NULL);
  tcdrain(STDOUT_FILENO);
  /* The host ends the guest, whose memory then has everything as the command left it. */
  atomic_store(&channel->state, ENDED);
  for (;;) pause();
}
