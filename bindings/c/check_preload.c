/*
 * Tells Coreshard's checking mode of memory that is freed, so that a work in it that is queued is found then, and not
 * when the worker comes to it:
 *
 *     CORESHARD_CHECK=1 LD_PRELOAD=libcoreshard_check.so program
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stddef.h>

static void (*tell)(const void *, size_t);
static void (*free_of_libc)(void *);
static void *(*realloc_of_libc)(void *, size_t);
/* Frees inside the checking mode are not checked. */
static __thread int inside __attribute__((tls_model("initial-exec")));

static void look_up(void)
{
	/* dlsym may allocate, and free. */
	inside++;
	if (!free_of_libc)
		*(void **)&free_of_libc = dlsym(RTLD_NEXT, "free");
	if (!realloc_of_libc)
		*(void **)&realloc_of_libc = dlsym(RTLD_NEXT, "realloc");
	if (!tell)
		*(void **)&tell = dlsym(RTLD_DEFAULT, "cs_check_free");
	inside--;
}

static void about_to_free(void *memory)
{
	if (!memory || inside)
		return;
	if (!tell)
		look_up();
	if (!tell)
		return;
	inside++;
	tell(memory, malloc_usable_size(memory));
	inside--;
}

void free(void *memory)
{
	if (!free_of_libc) {
		if (inside)
			return; /* inside of dlsym: a few bytes stay */
		look_up();
	}
	about_to_free(memory);
	free_of_libc(memory);
}

void *realloc(void *memory, size_t bytes)
{
	if (!realloc_of_libc)
		look_up();
	about_to_free(memory);
	return realloc_of_libc(memory, bytes);
}
