/* Events of the format in crates/coreshard-trace/src/recording/README.md. Every recorder includes this file first. */
#ifndef CORESHARD_EVENTS_H
#define CORESHARD_EVENTS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Above these bits: the number of instructions without an access since the previous access, at most 31, if known. */
enum access_kind { LOAD = 0, STORE = 1, MODIFY = 2, IS_ATOMIC = 4 };
#define BEFORE_SHIFT 3u
#define MOST_BEFORE 31u
#define LOADED (LOAD | IS_ATOMIC)
#define STORED (STORE | IS_ATOMIC)
#define MODIFIED (MODIFY | IS_ATOMIC)

enum code { SAME = 0, NEAR_8 = 1, NEAR_16 = 2, NEAR_32 = 3, FAR = 4, SITE = 5, EVENT = 6 };

enum event {
  THREAD_START = 1,
  THREAD_CREATE = 2,
  THREAD_JOIN = 3,
  THREAD_EXIT = 4,
  LOCK = 5,
  UNLOCK = 6,
  WAIT_END = 7,
  WAKE = 8,
  ALLOC = 9,
  FREED = 10,
  STACK = 11,
  RANGE = 12,
  GAP = 13,
  MODULE = 14,
  INSTRUCTIONS = 15,
};

#endif
