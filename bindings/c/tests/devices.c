/* Block I/O and real time. */
#define _GNU_SOURCE
#include "harness.h"

#include <coreshard.h>
#include <errno.h>

struct seen {
	struct cs_block_buffer *buffer;
	int64_t result;
	int calls;
};

static void note(struct cs_block_buffer *buffer, int64_t result, void *argument)
{
	struct seen *seen = argument;

	seen->buffer = buffer;
	seen->result = result;
	seen->calls++;
}

static void write_and_read(struct cs_block_device *device)
{
	struct cs_block_queue *queue = cs_block_queue(device, 0);
	struct cs_block_buffer *out = cs_block_buffer_alloc(4096), *in = cs_block_buffer_alloc(4096);
	struct seen seen = { NULL, 0, 0 };

	CHECK(device && queue && out && in && cs_block_buffer_length(in) == 4096);
	errno = 0;
	CHECK(!cs_block_queue(device, 0) && errno == EINVAL); /* a thread has one */
	memset(cs_block_buffer_data(out), 'c', 4096);
	CHECK(cs_block_write(queue, 8192, out, note, &seen) == 0);
	while (!seen.calls)
		CHECK(cs_block_wait(queue, UINT64_MAX) >= 0);
	CHECK(seen.result == 4096 && seen.buffer == out);
	CHECK(cs_block_flush(queue, note, &seen) == 0);
	while (seen.calls < 2)
		cs_block_wait(queue, 1000000000);
	CHECK(seen.buffer == NULL && seen.result == 0);
	CHECK(cs_block_read(queue, 8192, in, note, &seen) == 0 && cs_block_outstanding(queue) >= 0);
	while (seen.calls < 3)
		cs_block_wait(queue, UINT64_MAX);
	CHECK(seen.result == 4096 && seen.buffer == in);
	CHECK(memcmp(cs_block_buffer_data(in), cs_block_buffer_data(out), 4096) == 0);
	/* What can never be done is refused, and the buffer stays. */
	CHECK(cs_block_write(queue, UINT64_C(1) << 40, out, note, &seen) < 0 && seen.calls == 3);
	CHECK(*(char *)cs_block_buffer_data(out) == 'c' && cs_block_poll(queue) == 0);
	CHECK(cs_block_read(queue, 0, NULL, note, &seen) == -EINVAL);
	cs_block_queue_close(queue);
	cs_block_buffer_free(out);
	cs_block_buffer_free(in);
	cs_block_close(device);
}

struct chain {
	struct cs_block_queue *queue;
	int calls, is_closed;
};

/* Each read makes the next one; the last one waits for one more inside of itself, and closes the queue. */
static void read_again(struct cs_block_buffer *buffer, int64_t result, void *argument)
{
	struct chain *chain = argument;

	CHECK(result == 4096 && cs_block_buffer_length(buffer) == 4096);
	if (++chain->calls < 100) {
		CHECK(cs_block_read(chain->queue, 0, buffer, read_again, chain) == 0);
	} else if (!chain->is_closed) {
		struct seen seen = { NULL, 0, 0 };

		chain->is_closed = 1;
		CHECK(cs_block_write(chain->queue, 4096, buffer, note, &seen) == 0);
		while (!seen.calls)
			CHECK(cs_block_wait(chain->queue, UINT64_MAX) >= 0);
		CHECK(seen.result == 4096);
		cs_block_queue_close(chain->queue);
	}
}

static void a_callback_may_queue_wait_and_close(void)
{
	struct cs_block_device *device = cs_block_memory(1 << 20, 1);
	struct chain chain = { cs_block_queue(device, 0), 0, 0 };
	struct cs_block_buffer *buffer = cs_block_buffer_alloc(4096);

	CHECK(cs_block_read(chain.queue, 0, buffer, read_again, &chain) == 0);
	while (!chain.is_closed)
		CHECK(cs_block_wait(chain.queue, UINT64_MAX) >= 0);
	CHECK(chain.calls == 100);
	cs_block_buffer_free(buffer);
	cs_block_close(device);
}

static void a_buffer_is_with_one_request(void)
{
	struct cs_block_device *device = cs_block_memory(1 << 20, 1);
	struct cs_block_queue *queue = cs_block_queue(device, 0);
	struct cs_block_buffer *buffer = cs_block_buffer_alloc(4096);
	struct seen seen = { NULL, 0, 0 };

	CHECK(cs_block_read(queue, 0, buffer, note, &seen) == 0);
	CHECK(cs_block_read(queue, 0, buffer, note, &seen) == -EBUSY && strstr(cs_last_error(), "another request"));
	CHECK(cs_block_write(queue, 0, buffer, note, &seen) == -EBUSY);
	CHECK(!cs_block_buffer_data(buffer) && cs_block_buffer_length(buffer) == 0);
	cs_block_buffer_free(buffer); /* refused */
	cs_block_queue_close(queue);
	CHECK(seen.calls == 1 && seen.buffer == buffer && cs_block_buffer_length(buffer) == 4096);
	cs_block_buffer_free(buffer);
	cs_block_close(device);
}

static void memory_is_a_device(void) { write_and_read(cs_block_memory(1 << 20, 1)); }

/* Two devices of one target, one of another: they share the host, and go offline by their target. */
static void devices_of_a_target_go_offline_together(void)
{
	struct cs_block_host *host = cs_block_host(8, 1, -1);
	struct cs_block_target *gone = cs_block_target(host, "gone", 2), *stays = cs_block_target(host, "stays", 0);
	struct cs_block_device *devices[3];
	struct cs_block_queue *queues[3];
	struct cs_block_buffer *buffer = cs_block_buffer_alloc(4096);
	struct seen seen = { NULL, 0, 0 };
	int at;

	CHECK(host && gone && stays && buffer);
	for (at = 0; at < 3; at++) {
		devices[at] = cs_block_memory_on(at < 2 ? gone : stays, 1 << 16);
		queues[at] = cs_block_queue(devices[at], 0);
		CHECK(devices[at] && queues[at] && cs_block_write(queues[at], 0, buffer, note, &seen) == 0);
		while (seen.calls <= at)
			CHECK(cs_block_wait(queues[at], UINT64_MAX) >= 0);
		CHECK(seen.result == 4096);
	}
	errno = 0;
	CHECK(!cs_block_queue(devices[2], 1) && errno == EINVAL); /* the host is for one thread */
	CHECK(cs_block_target_set_offline(gone) == 0);
	for (at = 0; at < 2; at++) {
		CHECK(cs_block_write(queues[at], 0, buffer, note, &seen) == -ENODEV && seen.calls == 3);
		CHECK(cs_block_buffer_length(buffer) == 4096);
	}
	CHECK(cs_block_write(queues[2], 0, buffer, note, &seen) == 0);
	while (seen.calls < 4)
		CHECK(cs_block_wait(queues[2], UINT64_MAX) >= 0);
	CHECK(seen.result == 4096);
	/* Their hosts may be freed first. */
	cs_block_host_free(host);
	cs_block_target_free(stays);
	CHECK(cs_block_flush(queues[2], note, &seen) == 0);
	while (seen.calls < 5)
		CHECK(cs_block_wait(queues[2], UINT64_MAX) >= 0);
	for (at = 0; at < 3; at++) {
		cs_block_queue_close(queues[at]);
		cs_block_close(devices[at]);
	}
	cs_block_target_free(gone);
	cs_block_buffer_free(buffer);
	/* A limit that cannot be is told. */
	CHECK(!cs_block_host(UINT32_MAX, 1, -1) && errno == EINVAL && strlen(cs_last_error()) > 0);
}

static void more_memory_than_there_is_is_refused(void)
{
	errno = 0;
	CHECK(!cs_block_memory(UINT64_MAX, 1) && errno == ENOMEM && strstr(cs_last_error(), "18446744073709551615 bytes"));
	errno = 0;
	CHECK(!cs_block_buffer_alloc(SIZE_MAX) && errno == ENOMEM);
}

static void a_file_is_a_device(void)
{
	char path[] = "/tmp/coreshard-c-XXXXXX";
	int file = mkstemp(path);

	CHECK(file >= 0 && ftruncate(file, 1 << 20) == 0);
	close(file);
	write_and_read(cs_block_open(path, CS_BLOCK_WRITE, 2));
	CHECK(unlink(path) == 0);
	CHECK(!cs_block_open(path, 0, 1) && strstr(cs_last_error(), path));
}

static _Atomic int calls;
static void add_one(void *argument)
{
	CHECK(argument == &calls);
	atomic_fetch_add(&calls, 1);
}

static void tasks_of_fixed_priorities_run(void)
{
	struct cs_rt_executor *executor = cs_rt_executor(NULL, 1);
	struct cs_rt_periodic_stats stats;
	struct cs_rt_periodic *periodic;
	struct cs_rt_task *task;

	CHECK(executor && cs_rt_lacking(executor) >= 0);
	task = cs_rt_spawn(executor, 20, add_one, &calls);
	CHECK(task && cs_rt_join(task) == 0 && calls == 1);
	CHECK(!cs_rt_spawn(executor, 100, add_one, &calls) && strstr(cs_last_error(), "99"));
	CHECK(!cs_rt_spawn(executor, 0, add_one, &calls));
	periodic = cs_rt_periodic(executor, 1000000, 30, add_one, &calls);
	CHECK(periodic);
	WAIT_UNTIL(calls >= 4);
	CHECK(cs_rt_stop(periodic, &stats) == 0 && stats.activations >= 3);
	cs_rt_executor_free(executor);
}

static struct cs_rt_task *itself;
static void join_itself(void *outcome)
{
	WAIT_UNTIL(atomic_load(&calls) < 0);
	atomic_store((_Atomic int *)outcome, cs_rt_join(itself));
}

static void a_task_does_not_wait_for_itself(void)
{
	struct cs_rt_executor *executor = cs_rt_executor(NULL, 1);
	_Atomic int outcome = 0;

	atomic_store(&calls, 0);
	itself = cs_rt_spawn(executor, 20, join_itself, &outcome);
	CHECK(itself);
	atomic_store(&calls, -1);
	WAIT_UNTIL(outcome);
	CHECK(outcome == -EDEADLK && cs_rt_join(itself) == 0);
	cs_rt_executor_free(executor);
}

static long guarded;
static void *count(void *mutex)
{
	int turn;

	for (turn = 0; turn < 2000; turn++) {
		CHECK(cs_rt_mutex_lock(mutex) == 0);
		guarded++;
		CHECK(cs_rt_mutex_unlock(mutex) == 0);
	}
	return NULL;
}

static void a_mutex_admits_one(void)
{
	struct cs_rt_mutex *mutex = cs_rt_mutex();
	pthread_t threads[3];
	size_t thread;

	CHECK(cs_rt_mutex_trylock(mutex) == 0);
	CHECK(cs_rt_mutex_lock(mutex) == -EDEADLK && cs_rt_mutex_trylock(mutex) < 0);
	CHECK(cs_rt_mutex_unlock(mutex) == 0 && cs_rt_mutex_unlock(mutex) == -EPERM);
	for (thread = 0; thread < 3; thread++)
		CHECK(pthread_create(&threads[thread], NULL, count, mutex) == 0);
	for (thread = 0; thread < 3; thread++)
		pthread_join(threads[thread], NULL);
	CHECK(guarded == 6000);
	cs_rt_mutex_free(mutex);
}

int main(int argc, char **argv)
{
	static const struct row rows[] = {
		ROW(memory_is_a_device),
		ROW(a_callback_may_queue_wait_and_close),
		ROW(a_buffer_is_with_one_request),
		ROW(devices_of_a_target_go_offline_together),
		ROW(more_memory_than_there_is_is_refused),
		ROW(a_file_is_a_device),
		ROW(tasks_of_fixed_priorities_run),
		ROW(a_task_does_not_wait_for_itself),
		ROW(a_mutex_admits_one),
	};
	return run_rows(rows, sizeof(rows) / sizeof(*rows), argc, argv);
}
