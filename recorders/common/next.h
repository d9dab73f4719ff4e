/* Finds the function that the program would have called without the recorder. Both engines include this file in
 * front of their wrappers. */

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/futex.h>

#define EXPORT __attribute__((visibility("default")))
#define RETURN_ADDRESS ((uint64_t)__builtin_return_address(0))

#define NEXT(name)                                                                   \
  ({                                                                                 \
    static __typeof__(&name) next;                                                   \
    if (__builtin_expect(next == NULL, 0)) next = (__typeof__(next))dlsym(RTLD_NEXT, #name); \
    next;                                                                            \
  })

