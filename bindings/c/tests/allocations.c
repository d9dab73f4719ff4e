/*
 * Queueing allocates nothing: this program's malloc counts for each thread. Allocations made once (the workers, the slots
 * of items) are made before counting.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <coreshard.h>
#include <errno.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

/* Volatile: the compiler knows that malloc changes nothing that it can see. */
static _Thread_local volatile unsigned long allocated;

void *malloc(size_t bytes)
{
	allocated++;
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	allocated++;
	return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
	allocated++;
	return __libc_realloc(memory, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	allocated++;
	*memory = __libc_memalign(alignment, bytes);
	return *memory ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	allocated++;
	return __libc_memalign(alignment, bytes);
}

enum { WORKS = 20000, ROUNDS = 5 };
static struct cs_work works[WORKS];
static _Atomic unsigned long run;

static void note(struct cs_work *work)
{
	(void)work;
	atomic_fetch_add(&run, 1);
}

static void add(uint64_t *words) { atomic_fetch_add(&run, words[0] + words[1]); }
static struct cs_call call = CS_CALL_INITIALIZER(add);

static void queue_works(struct cs_workqueue *queue)
{
	size_t at;

	for (at = 0; at < WORKS; at++)
		CHECK(cs_queue_work(queue, &works[at]) == 1);
}

static void queue_calls(struct cs_workqueue *queue)
{
	size_t at;

	for (at = 0; at < WORKS; at++)
		CHECK(cs_queue_call(queue, &call, at % 2, 1 - at % 2) == 1);
}

/* What rounds after the first one allocate on this thread, in the best of them. */
static unsigned long counted(void (*queue_all)(struct cs_workqueue *), unsigned int flags)
{
	struct cs_workqueue *queue = cs_alloc_workqueue("counted", flags, 0);
	unsigned long least = -1ul, before, used;
	int round;

	CHECK(queue);
	atomic_store(&run, 0);
	/* Frozen once, so that all of them wait at once: then there is room for as many. */
	CHECK(cs_freeze_workqueue(queue) == 0);
	queue_all(queue);
	CHECK(cs_thaw_workqueue(queue) == 0);
	CHECK(cs_flush_workqueue(queue) == 0);
	for (round = 0; round < ROUNDS; round++) {
		before = allocated;
		queue_all(queue);
		used = allocated - before;
		least = used < least ? used : least;
		CHECK(cs_flush_workqueue(queue) == 0);
	}
	CHECK(atomic_load(&run) == (ROUNDS + 1) * (unsigned long)WORKS);
	CHECK(cs_destroy_workqueue(queue) == 0);
	return least;
}

static void allocations_are_counted(void)
{
	unsigned long before = allocated;
	/* So that the compiler leaves nothing out. */
	void *volatile made = malloc(1);

	free(made);
	CHECK(allocated == before + 1);
	/* And inside of the library. */
	cs_topology_free(cs_topology_host());
	CHECK(allocated > before + 1);
}

static void queueing_a_work_allocates_nothing(void)
{
	size_t at;

	for (at = 0; at < WORKS; at++)
		cs_work_init(&works[at], note);
	CHECK(counted(queue_works, 0) == 0);
}

static void queueing_a_call_allocates_nothing(void) { CHECK(counted(queue_calls, 0) == 0); }

int main(int argc, char **argv)
{
	static const struct row rows[] = {
		ROW(allocations_are_counted),
		ROW(queueing_a_work_allocates_nothing),
		ROW(queueing_a_call_allocates_nothing),
	};
	return run_rows(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
