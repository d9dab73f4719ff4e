/*
 * Each function of coreshard.h that takes a pointer, given null: it tells so, or does nothing where the header says that null is
 * fine, before and after the library knows that the checking mode is off. ci/c_binding.sh looks that every such function is named here.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <coreshard.h>
#include <errno.h>

static void nothing(struct cs_work *work) { (void)work; }
static void nothing_of_range(size_t begin, size_t end, void *argument) { (void)begin, (void)end, (void)argument; }
static void nothing_of_call(void *argument) { (void)argument; }
static void nothing_of_words(uint64_t *words) { (void)words; }
static void nothing_of_request(struct cs_block_buffer *of, int64_t result, void *argument)
{
	(void)of, (void)result, (void)argument;
}

/* The call is refused, with the sentence that belongs to it. */
#define REFUSED(call) CHECK((call) == -EINVAL && strstr(cs_last_error(), "null pointer"))
/* As it, of one that makes something. */
#define NOT_MADE(call) CHECK((call) == NULL && errno == EINVAL && strstr(cs_last_error(), "null pointer"))

static void give_nulls(struct cs_workqueue *queue, struct cs_work *work)
{
	static struct cs_call call = CS_CALL_INITIALIZER(nothing_of_words);
	static struct cs_work empty;

	cs_work_init_named(NULL, nothing, "nothing");
	REFUSED(cs_queue_work(queue, NULL));
	REFUSED(cs_queue_work(NULL, work));
	REFUSED(cs_queue_work(NULL, NULL));
	REFUSED(cs_queue_work_on(queue, 0, NULL));
	REFUSED(cs_queue_work_on(NULL, 0, work));
	REFUSED(cs_queue_work_node(queue, 0, NULL));
	REFUSED(cs_queue_work_node(NULL, 0, work));
	REFUSED(cs_queue_delayed_work(queue, NULL, 1));
	REFUSED(cs_queue_delayed_work(NULL, work, 1));
	REFUSED(cs_queue_delayed_work_on(queue, 0, NULL, 1));
	REFUSED(cs_queue_delayed_work_on(NULL, 0, work, 1));
	REFUSED(cs_mod_delayed_work(queue, NULL, 1));
	REFUSED(cs_mod_delayed_work(NULL, work, 1));
	REFUSED(cs_mod_delayed_work_on(queue, 0, NULL, 1));
	REFUSED(cs_mod_delayed_work_on(NULL, 0, work, 1));
	REFUSED(cs_flush_work(NULL));
	REFUSED(cs_cancel_work(NULL));
	REFUSED(cs_cancel_work_sync(NULL));
	REFUSED(cs_disable_work(NULL));
	REFUSED(cs_disable_work_sync(NULL));
	REFUSED(cs_enable_work(NULL));
	REFUSED(cs_work_pending(NULL));
	REFUSED(cs_work_running(NULL));
	CHECK(cs_queue_work(queue, &empty) == -EINVAL && strstr(cs_last_error(), "no function"));

	REFUSED(cs_queue_call(queue, NULL, 1, 2));
	REFUSED(cs_queue_call(NULL, &call, 1, 2));
	REFUSED(cs_queue_call_on(queue, 0, NULL, 1, 2));
	REFUSED(cs_queue_call_on(NULL, 0, &call, 1, 2));
	REFUSED(cs_join(NULL, NULL, nothing_of_call, NULL));
	REFUSED(cs_join(nothing_of_call, NULL, NULL, NULL));
	REFUSED(cs_call_on(queue, NULL, NULL));
	REFUSED(cs_call_on(NULL, nothing_of_call, NULL));
	REFUSED(cs_for_range(queue, 0, 9, NULL, NULL));
	REFUSED(cs_for_range(NULL, 0, 9, nothing_of_range, NULL));

	REFUSED(cs_workqueue_set_max_active(NULL, 1));
	REFUSED(cs_workqueue_is_percpu(NULL));
	CHECK(*cs_workqueue_name(NULL) == '\0');
	REFUSED(cs_flush_workqueue(NULL));
	REFUSED(cs_drain_workqueue(NULL));
	REFUSED(cs_freeze_workqueue(NULL));
	REFUSED(cs_thaw_workqueue(NULL));
	REFUSED(cs_destroy_workqueue(NULL));
	REFUSED(cs_workqueue_stats(NULL, &(struct cs_workqueue_stats){ 0 }, sizeof(struct cs_workqueue_stats)));
	REFUSED(cs_workqueue_stats(queue, NULL, sizeof(struct cs_workqueue_stats)));
	REFUSED(cs_change_workqueue(NULL, NULL));
	CHECK(cs_configure(NULL) == -EINVAL);
	cs_check_free(NULL, 0);
	CHECK(cs_set_check_handler(NULL) == NULL);
}

static struct cs_work work = CS_WORK_INITIALIZER(nothing);

static void a_queue_that_is_null_or_a_work_is_refused(void)
{
	struct cs_workqueue *queue = cs_alloc_workqueue("nulls", 0, 0);

	CHECK(queue);
	give_nulls(queue, &work);
	/* From here on a call goes the short way. */
	CHECK(cs_queue_work(queue, &work) == 1);
	cs_flush_work(&work);
	give_nulls(queue, &work);
	CHECK(cs_destroy_workqueue(queue) == 0);
}

static void what_may_be_null_is_a_default(void)
{
	struct cs_workqueue *unnamed = cs_alloc_workqueue(NULL, 0, 0), *plain = cs_alloc_workqueue_attrs(NULL, NULL);

	CHECK(unnamed && plain && *cs_workqueue_name(unnamed));
	CHECK(cs_change_workqueue(plain, NULL) == 0);
	CHECK(cs_queue_work(plain, &work) == 1 && cs_destroy_workqueue(plain) == 0 && cs_destroy_workqueue(unnamed) == 0);
	cs_block_close(NULL);
	cs_block_target_free(NULL);
	cs_block_host_free(NULL);
	cs_block_queue_close(NULL);
	cs_block_buffer_free(NULL);
	cs_rt_executor_free(NULL);
	cs_rt_mutex_free(NULL);
	cs_topology_free(NULL);
	cs_pods_free(NULL);
}

static void devices_tasks_and_machines_that_are_null_are_refused(void)
{
	struct cs_block_host *host = cs_block_host(0, 1, -1);
	struct cs_block_target *target = cs_block_target(host, "target", 0);
	struct cs_block_device *device = cs_block_memory(1 << 16, 1);
	struct cs_block_queue *queue = cs_block_queue(device, 0);
	struct cs_block_buffer *buffer = cs_block_buffer_alloc(4096);
	struct cs_rt_executor *executor = cs_rt_executor(NULL, 1);

	CHECK(device && queue && buffer && executor);
	NOT_MADE(cs_block_open(NULL, 0, 1));
	NOT_MADE(cs_block_queue(NULL, 0));
	NOT_MADE(cs_block_target(NULL, "target", 0));
	NOT_MADE(cs_block_target(host, NULL, 0));
	NOT_MADE(cs_block_memory_on(NULL, 4096));
	NOT_MADE(cs_block_open_on(NULL, "/proc/self/exe", 0));
	NOT_MADE(cs_block_open_on(target, NULL, 0));
	REFUSED(cs_block_target_set_offline(NULL));
	CHECK(cs_block_buffer_data(NULL) == NULL && cs_block_buffer_length(NULL) == 0);
	REFUSED(cs_block_read(NULL, 0, buffer, nothing_of_request, NULL));
	REFUSED(cs_block_read(queue, 0, NULL, nothing_of_request, NULL));
	REFUSED(cs_block_read(queue, 0, buffer, NULL, NULL));
	REFUSED(cs_block_write(NULL, 0, buffer, nothing_of_request, NULL));
	REFUSED(cs_block_write(queue, 0, NULL, nothing_of_request, NULL));
	REFUSED(cs_block_flush(NULL, nothing_of_request, NULL));
	REFUSED(cs_block_flush(queue, NULL, NULL));
	REFUSED(cs_block_poll(NULL));
	REFUSED(cs_block_wait(NULL, 0));
	REFUSED(cs_block_outstanding(NULL));
	cs_block_buffer_free(buffer);
	cs_block_queue_close(queue);
	cs_block_close(device);
	cs_block_target_free(target);
	cs_block_host_free(host);

	NOT_MADE(cs_rt_spawn(NULL, 1, nothing_of_call, NULL));
	NOT_MADE(cs_rt_spawn(executor, 1, NULL, NULL));
	NOT_MADE(cs_rt_periodic(NULL, 1000000, 1, nothing_of_call, NULL));
	NOT_MADE(cs_rt_periodic(executor, 1000000, 1, NULL, NULL));
	REFUSED(cs_rt_join(NULL));
	REFUSED(cs_rt_stop(NULL, NULL));
	REFUSED(cs_rt_lacking(NULL));
	REFUSED(cs_rt_mutex_lock(NULL));
	REFUSED(cs_rt_mutex_trylock(NULL));
	REFUSED(cs_rt_mutex_unlock(NULL));
	cs_rt_executor_free(executor);

	NOT_MADE(cs_topology_parse(NULL));
	REFUSED(cs_topology_cpus(NULL));
	REFUSED(cs_topology_llcs(NULL));
	REFUSED(cs_topology_nodes(NULL));
	NOT_MADE(cs_pods(NULL, CS_SCOPE_CACHE, 0, NULL));
	REFUSED(cs_pods_count(NULL));
	REFUSED(cs_pod_of(NULL, 0));
	CHECK(cs_pod_cpus(NULL, 0) == NULL);
}

int main(int argc, char **argv)
{
	static const struct row rows[] = {
		ROW(a_queue_that_is_null_or_a_work_is_refused),
		ROW(what_may_be_null_is_a_default),
		ROW(devices_tasks_and_machines_that_are_null_are_refused),
	};
	return run_rows(rows, sizeof(rows) / sizeof(*rows), argc, argv);
}
