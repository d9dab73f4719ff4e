/* Operations without a kernel name: forks, loops, stats, diagnostics, the socket, topology. */
#define _GNU_SOURCE
#include "harness.h"

#include <coreshard.h>
#include <errno.h>

static void sum_of(size_t begin, size_t end, void *argument)
{
	unsigned long sum = 0;

	for (; begin < end; begin++)
		sum += begin;
	atomic_fetch_add((_Atomic unsigned long *)argument, sum);
}

struct part {
	unsigned long begin, end, sum;
};

static void sum_by_halves(void *argument)
{
	struct part *part = argument;
	unsigned long at, middle = part->begin + (part->end - part->begin) / 2;
	struct part left = { part->begin, middle, 0 }, right = { middle, part->end, 0 };

	if (part->end - part->begin < 100) {
		for (at = part->begin; at < part->end; at++)
			part->sum += at;
		return;
	}
	CHECK(cs_join(sum_by_halves, &left, sum_by_halves, &right) == 0);
	part->sum = left.sum + right.sum;
}

static void joins_and_loops_do_all_of_it(void)
{
	struct cs_workqueue *queue = cs_alloc_workqueue("sums", 0, 0);
	_Atomic unsigned long sum = 0;
	struct part outside = { 0, 10000, 0 }, inside = { 0, 10000, 0 };

	CHECK(cs_for_range(queue, 0, 10000, sum_of, &sum) == 0 && sum == 49995000);
	CHECK(cs_for_range(queue, 5, 5, sum_of, &sum) == 0 && sum == 49995000);
	sum_by_halves(&outside);
	CHECK(cs_call_on(queue, sum_by_halves, &inside) == 0);
	CHECK(outside.sum == 49995000 && inside.sum == 49995000);
	CHECK(cs_join(NULL, NULL, sum_by_halves, &inside) == -EINVAL);
	CHECK(cs_for_range(NULL, 0, 1, sum_of, &sum) == -EINVAL);
	CHECK(cs_destroy_workqueue(queue) == 0);
}

static struct cs_work spinning;
static _Atomic int go_on;
static void spin(struct cs_work *work)
{
	(void)work;
	while (!atomic_load(&go_on))
		;
}

static void nothing(struct cs_work *work) { (void)work; }

static _Atomic int hogs;
static void note_trouble(int kind, const char *sentence, void *argument)
{
	CHECK(argument == &hogs);
	if (kind == CS_TROUBLE_CPU_HOG) {
		/* It is told by the function's name in C. */
		CHECK(strstr(sentence, "spin"));
		atomic_fetch_add(&hogs, 1);
	}
}

/* First: the process's runtime is made here. */
static void trouble_is_told_by_the_functions_name(void)
{
	struct cs_config config = CS_CONFIG_INIT;
	struct cs_workqueue *queue;
	struct cs_workqueue_attrs attrs = CS_WORKQUEUE_ATTRS_INIT;
	static struct cs_work waits[64];
	struct cs_workqueue_stats stats;
	size_t wait;

	config.workers = 1;
	config.cpu_intensive_ns = 1000000;
	config.on_trouble = note_trouble;
	config.trouble_argument = &hogs;
	CHECK(cs_configure(&config) == 0);
	CHECK(cs_configure(&config) == -EEXIST && strstr(cs_last_error(), "already"));
	attrs.scope = CS_SCOPE_SYSTEM;
	queue = cs_alloc_workqueue_attrs("hogs", &attrs);
	CHECK(queue);
	cs_work_init(&spinning, spin);
	CHECK(cs_queue_work(queue, &spinning) == 1);
	for (wait = 0; wait < 64; wait++) {
		cs_work_init(&waits[wait], nothing);
		CHECK(cs_queue_work(queue, &waits[wait]) == 1);
	}
	WAIT_UNTIL(hogs > 0);
	atomic_store(&go_on, 1);
	CHECK(cs_flush_workqueue(queue) == 0);
	CHECK(cs_workqueue_stats(queue, &stats, sizeof(stats)) == 0);
	CHECK(stats.queued == 65 && stats.run == 65 && stats.cpu_hogs >= 1 && stats.pools == 1);
	/* A program that was compiled with an older header gets what that had. */
	memset(&stats, 0xff, sizeof(stats));
	CHECK(cs_workqueue_stats(queue, &stats, 8) == 0 && stats.queued == 65 && stats.run == UINT64_MAX);
	CHECK(cs_destroy_workqueue(queue) == 0);
}

static void topologies_have_pods(void)
{
	struct cs_topology *machine = cs_topology_parse("pack:2 numa:1 l3:1 core:12 pu:2");
	struct cs_pods *pods;
	int first, other;

	CHECK(machine && cs_topology_cpus(machine) == 48 && cs_topology_llcs(machine) == 2);
	CHECK(cs_topology_nodes(machine) == 2);
	pods = cs_pods(machine, CS_SCOPE_CACHE_SHARD, 0, NULL);
	CHECK(pods && cs_pods_count(pods) == 4); /* 12 cores are two shards of 6 */
	first = cs_pod_of(pods, 0);
	other = cs_pod_of(pods, 13);
	CHECK(first == 0 && other >= 0 && other != first);
	CHECK(strcmp(cs_pod_cpus(pods, 0), "0-11") == 0);
	CHECK(!cs_pod_cpus(pods, 99) && cs_pod_of(pods, 99) == -ENOENT);
	cs_pods_free(pods);
	pods = cs_pods(machine, CS_SCOPE_NUMA, 0, "0-3");
	CHECK(pods && cs_pods_count(pods) == 1 && cs_pod_of(pods, 4) == -ENOENT);
	cs_pods_free(pods);
	CHECK(!cs_pods(machine, CS_SCOPE_NUMA, 0, "9999"));
	cs_topology_free(machine);
	machine = cs_topology_host();
	CHECK(machine && cs_topology_cpus(machine) >= 1);
	cs_topology_free(machine);
	errno = 0;
	CHECK(!cs_topology_parse("no such machine") && errno == EINVAL);
}

static void the_socket_is_served_and_not(void)
{
	CHECK(cs_serve_insight() == 0 && cs_serve_insight() == 1);
	CHECK(cs_stop_insight() == 0 && cs_stop_insight() == 1);
}

static void the_processs_queues_cannot_be_destroyed(void)
{
	static struct cs_work work = CS_WORK_INITIALIZER(nothing);
	int which;

	for (which = CS_SYSTEM_WORKQUEUE_KIND_DEFAULT; which <= CS_SYSTEM_WORKQUEUE_KIND_PERCPU_HIGHPRI; which++) {
		struct cs_workqueue *queue = cs_system_workqueue(which);

		CHECK(queue && cs_destroy_workqueue(queue) == -EINVAL && strstr(cs_last_error(), "cannot destroy workqueue"));
		CHECK(cs_system_workqueue(which) == queue);
		CHECK(cs_queue_work(queue, &work) == 1 && cs_flush_workqueue(queue) == 0);
	}
}

static _Atomic size_t filled_bytes;

/* A function that needs the most of a thread's stack. */
static void *fill(void *bytes)
{
	size_t at, size = *(size_t *)bytes;
	volatile char *filled = __builtin_alloca(size);

	for (at = 0; at < size; at += 4096)
		filled[at] = 1;
	atomic_fetch_add(&filled_bytes, size);
	return NULL;
}

/* What of a thread's stack is not for functions: gcc's thread sanitizer has 767 KiB of each thread's variables there. */
#ifdef __SANITIZE_THREAD__
#define NOT_FOR_FUNCTIONS (1024 << 10)
#else
#define NOT_FOR_FUNCTIONS (256 << 10)
#endif

static size_t to_fill;
static void fill_a_stack(struct cs_work *work)
{
	(void)work;
	fill(&to_fill);
}

static void stacks_are_as_large_as_a_threads_or_as_was_asked_for(void)
{
	static struct cs_work work = CS_WORK_INITIALIZER(fill_a_stack);
	struct cs_workqueue_attrs attrs = CS_WORKQUEUE_ATTRS_INIT;
	struct cs_workqueue *queue = cs_alloc_workqueue("as a thread", 0, 0);
	pthread_attr_t of_thread;
	pthread_t thread;

	CHECK(pthread_attr_init(&of_thread) == 0 && pthread_attr_getstacksize(&of_thread, &to_fill) == 0);
	to_fill -= NOT_FOR_FUNCTIONS;
	CHECK(pthread_create(&thread, NULL, fill, &to_fill) == 0 && pthread_join(thread, NULL) == 0);
	CHECK(queue && cs_queue_work(queue, &work) == 1);
	CHECK(cs_destroy_workqueue(queue) == 0 && filled_bytes == 2 * to_fill);

	attrs.stack_bytes = 4 * to_fill;
	to_fill *= 3;
	queue = cs_alloc_workqueue_attrs("deep", &attrs);
	CHECK(queue && cs_queue_work(queue, &work) == 1);
	CHECK(cs_destroy_workqueue(queue) == 0 && filled_bytes == 5 * to_fill / 3);
}

int main(int argc, char **argv)
{
	static const struct row rows[] = {
		ROW(trouble_is_told_by_the_functions_name),
		ROW(joins_and_loops_do_all_of_it),
		ROW(topologies_have_pods),
		ROW(the_socket_is_served_and_not),
		ROW(the_processs_queues_cannot_be_destroyed),
		ROW(stacks_are_as_large_as_a_threads_or_as_was_asked_for),
	};
	return run_rows(rows, sizeof(rows) / sizeof(*rows), argc, argv);
}
