/*
 * Each function of coreshard.h in a process that was forked, with what the parent had made, in whatever state: no call hangs,
 * and each tells what the header says. ci/c_binding.sh looks that every function that is exported is named here.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <coreshard.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

/* The parent's state at the fork. */
static struct cs_workqueue *queue, *frozen, *ordered, *system_queue;
static struct cs_work idle, runs, pending, pending_in_turn, delayed, disabled, unused = CS_WORK_INITIALIZER(NULL);
static struct cs_rt_executor *executor;
static struct cs_rt_task *task, *task_over;
static struct cs_rt_periodic *periodic;
static struct cs_rt_mutex *free_mutex, *held_mutex, *others_mutex;
static struct cs_block_host *host;
static struct cs_block_target *target;
static struct cs_block_device *device;
static struct cs_block_queue *block_queue;
static struct cs_block_buffer *buffer, *buffer_of_request;
static struct cs_topology *machine;
static struct cs_pods *pods;

static _Atomic int let_go, has_begun, task_has_begun, others_mutex_is_held, calls;

static void wait_for_leave(struct cs_work *work)
{
	(void)work;
	atomic_store(&has_begun, 1);
	WAIT_UNTIL(atomic_load(&let_go));
}

static void count(struct cs_work *work)
{
	(void)work;
	atomic_fetch_add(&calls, 1);
}

static void count_words(uint64_t *words)
{
	(void)words;
	atomic_fetch_add(&calls, 1);
}
static struct cs_call call = CS_CALL_INITIALIZER(count_words);

static void count_call(void *argument)
{
	(void)argument;
	atomic_fetch_add(&calls, 1);
}

static void count_range(size_t begin, size_t end, void *argument)
{
	(void)argument;
	atomic_fetch_add(&calls, (int)(end - begin));
}

static void let_others(struct cs_work *work) { (void)work; }

static void tick(void *argument) { (void)argument; }

static void run_until_leave(void *argument)
{
	(void)argument;
	atomic_store(&task_has_begun, 1);
	WAIT_UNTIL(atomic_load(&let_go));
}

static void done(struct cs_block_buffer *of, int64_t result, void *argument)
{
	(void)of, (void)result, (void)argument;
	atomic_fetch_add(&calls, 1);
}

static void *hold_mutex(void *argument)
{
	CHECK(cs_rt_mutex_lock(others_mutex) == 0);
	atomic_store(&others_mutex_is_held, 1);
	WAIT_UNTIL(atomic_load(&let_go));
	CHECK(cs_rt_mutex_unlock(others_mutex) == 0);
	return argument;
}

/* ---- rows: in the child ---- */

/* A new queue is as any, and so is a work on it. */
static void runs_on_a_queue_of_its_own(struct cs_work *work)
{
	struct cs_workqueue *own = cs_alloc_workqueue("child", 0, 0);
	int before = calls;

	CHECK(own && cs_queue_work(own, work) == 1 && cs_flush_work(work) >= 0 && cs_flush_workqueue(own) == 0);
	CHECK(calls == before + 1 && !cs_work_pending(work) && !cs_work_running(work));
	CHECK(cs_queue_delayed_work(own, work, 1000000) == 1 && cs_flush_work(work) >= 0 && calls == before + 2);
	CHECK(cs_destroy_workqueue(own) == 0);
}

static void queueing_fails(struct cs_workqueue *on, struct cs_work *work)
{
	const uint64_t hour = UINT64_C(3600000000000);

	CHECK(cs_queue_work(on, work) == -ECHILD && strstr(cs_last_error(), "forked"));
	CHECK(cs_queue_work_on(on, 0, work) == -ECHILD);
	CHECK(cs_queue_work_node(on, 0, work) == -ECHILD);
	CHECK(cs_queue_delayed_work(on, work, hour) == -ECHILD);
	CHECK(cs_queue_delayed_work(on, work, 0) == -ECHILD);
	CHECK(cs_queue_delayed_work_on(on, 0, work, hour) == -ECHILD);
}

static void modifying_fails(struct cs_workqueue *on, struct cs_work *work)
{
	CHECK(cs_mod_delayed_work(on, work, 1000000) == -ECHILD);
	CHECK(cs_mod_delayed_work(on, work, 0) == -ECHILD);
	CHECK(cs_mod_delayed_work_on(on, 0, work, 1000000) == -ECHILD);
}

static void a_work_that_was_idle(void)
{
	queueing_fails(queue, &idle);
	modifying_fails(queue, &idle);
	CHECK(cs_flush_work(&idle) == 0 && cs_cancel_work(&idle) == 0 && cs_cancel_work_sync(&idle) == 0);
	CHECK(!cs_work_pending(&idle) && !cs_work_running(&idle));
	CHECK(cs_disable_work(&idle) == 0 && cs_disable_work_sync(&idle) == 0);
	CHECK(cs_queue_work(queue, &idle) < 0);
	CHECK(cs_enable_work(&idle) == 0 && cs_enable_work(&idle) == 1 && cs_enable_work(&idle) == -EINVAL);
	runs_on_a_queue_of_its_own(&idle);
}

/* Its worker is not here: it does not run, and can be queued. */
static void a_work_that_ran(void)
{
	CHECK(!cs_work_pending(&runs) && !cs_work_running(&runs));
	CHECK(cs_flush_work(&runs) == 0 && cs_cancel_work_sync(&runs) == 0 && cs_disable_work_sync(&runs) == 0);
	CHECK(cs_enable_work(&runs) == 1);
	queueing_fails(queue, &runs);
	atomic_store(&let_go, 1);
	cs_work_init(&runs, count);
	runs_on_a_queue_of_its_own(&runs);
}

/* It never runs here. Nothing waits for it, nor takes it for queued; cancelled or set up anew, it can be. */
static void was_pending(struct cs_workqueue *on, struct cs_work *work)
{
	struct cs_workqueue *own = cs_alloc_workqueue("child", 0, 0);

	CHECK(own && !cs_work_pending(work) && !cs_work_running(work));
	queueing_fails(on, work);
	queueing_fails(own, work);
	CHECK(cs_flush_work(work) == -ECHILD && strstr(cs_last_error(), "forked"));
	CHECK(cs_destroy_workqueue(own) == 0);
}

static void pending_then_cancelled(struct cs_workqueue *on, struct cs_work *work)
{
	was_pending(on, work);
	CHECK(cs_cancel_work(work) == 1 && cs_cancel_work(work) == 0 && cs_flush_work(work) == 0);
	runs_on_a_queue_of_its_own(work);
}

static void pending_then_set_up(struct cs_workqueue *on, struct cs_work *work)
{
	was_pending(on, work);
	cs_work_init(work, count);
	runs_on_a_queue_of_its_own(work);
}

static void pending_then_cancelled_and_waited_for(struct cs_workqueue *on, struct cs_work *work)
{
	was_pending(on, work);
	CHECK(cs_cancel_work_sync(work) == 1 && cs_cancel_work_sync(work) == 0);
	runs_on_a_queue_of_its_own(work);
}

static void pending_then_disabled(struct cs_workqueue *on, struct cs_work *work)
{
	was_pending(on, work);
	CHECK(cs_disable_work(work) == 1 && cs_disable_work_sync(work) == 0);
	CHECK(cs_enable_work(work) == 0 && cs_enable_work(work) == 1);
	runs_on_a_queue_of_its_own(work);
}

static void pending_then_disabled_and_waited_for(struct cs_workqueue *on, struct cs_work *work)
{
	was_pending(on, work);
	CHECK(cs_disable_work_sync(work) == 1 && cs_enable_work(work) == 1);
	runs_on_a_queue_of_its_own(work);
}

static void pending_then_moved(struct cs_workqueue *on, struct cs_work *work)
{
	struct cs_workqueue *own = cs_alloc_workqueue("child", 0, 0);

	was_pending(on, work);
	CHECK(cs_mod_delayed_work(own, work, 1000000) == 1 && cs_flush_work(work) >= 0 && calls == 1);
	modifying_fails(on, work);
	runs_on_a_queue_of_its_own(work);
	CHECK(cs_destroy_workqueue(own) == 0);
}

#define PENDING_ROWS(how) \
	static void a_pending_work_##how(void) { pending_then_##how(queue, &pending); } \
	static void a_delayed_work_##how(void) { pending_then_##how(queue, &delayed); } \
	static void a_work_in_turn_##how(void) { pending_then_##how(ordered, &pending_in_turn); }

PENDING_ROWS(cancelled)
PENDING_ROWS(set_up)
PENDING_ROWS(cancelled_and_waited_for)
PENDING_ROWS(disabled)
PENDING_ROWS(disabled_and_waited_for)
PENDING_ROWS(moved)

static void a_work_that_was_disabled(void)
{
	CHECK(cs_queue_work(queue, &disabled) < 0 && cs_enable_work(&disabled) == 1);
	runs_on_a_queue_of_its_own(&disabled);
}

static void a_work_that_was_never_queued(void)
{
	cs_work_init_named(&unused, count, "count");
	runs_on_a_queue_of_its_own(&unused);
}

static void of_a_queue(struct cs_workqueue *of)
{
	struct cs_workqueue_attrs attrs = CS_WORKQUEUE_ATTRS_INIT;
	struct cs_workqueue_stats stats;

	CHECK(strlen(cs_workqueue_name(of)) > 0 && cs_workqueue_is_percpu(of) == 0);
	CHECK(cs_workqueue_stats(of, &stats, sizeof(stats)) == 0);
	CHECK(cs_queue_call(of, &call, 1, 2) == -ECHILD && cs_queue_call_on(of, 0, &call, 1, 2) == -ECHILD);
	CHECK(cs_call_on(of, count_call, NULL) == -ECHILD && cs_for_range(of, 0, 100, count_range, NULL) == -ECHILD);
	CHECK(calls == 0);
	CHECK(cs_flush_workqueue(of) == -ECHILD && strstr(cs_last_error(), "forked"));
	CHECK(cs_drain_workqueue(of) == -ECHILD);
	CHECK(cs_freeze_workqueue(of) == -ECHILD && cs_thaw_workqueue(of) == -ECHILD);
	CHECK(cs_workqueue_set_max_active(of, 3) == -ECHILD && cs_change_workqueue(of, &attrs) == -ECHILD);
	/* It frees nothing that the parent's threads may have held, and does not fail. */
	CHECK(cs_destroy_workqueue(of) == 0);
}

static void a_queue(void) { of_a_queue(queue); }
static void a_frozen_queue(void) { of_a_queue(frozen); }
static void an_ordered_queue(void) { of_a_queue(ordered); }

static void the_processes_own_queues(void)
{
	int kind;

	CHECK(cs_queue_call(system_queue, &call, 1, 2) == -ECHILD);
	for (kind = CS_SYSTEM_WORKQUEUE_KIND_DEFAULT; kind <= CS_SYSTEM_WORKQUEUE_KIND_PERCPU_HIGHPRI; kind++) {
		struct cs_workqueue *own = cs_system_workqueue(kind);

		CHECK(own && own != system_queue && own == cs_system_workqueue(kind));
		calls = 0;
		CHECK(cs_queue_call(own, &call, 1, 2) == 1 && cs_flush_workqueue(own) == 0 && calls == 1);
	}
}

static void queues_of_its_own(void)
{
	struct cs_workqueue_attrs attrs = CS_WORKQUEUE_ATTRS_INIT;
	struct cs_workqueue *own;

	attrs.scope = CS_SCOPE_NUMA;
	own = cs_alloc_workqueue_attrs("child", &attrs);
	CHECK(own && cs_call_on(own, count_call, NULL) == 0 && calls == 1);
	CHECK(cs_for_range(own, 0, 1000, count_range, NULL) == 0 && calls == 1001);
	CHECK(cs_freeze_workqueue(own) == 0 && cs_thaw_workqueue(own) == 0 && cs_drain_workqueue(own) == 0);
	CHECK(cs_workqueue_set_max_active(own, 3) == 0 && cs_change_workqueue(own, &attrs) == 0);
	CHECK(cs_destroy_workqueue(own) == 0);
}

static void a_join(void)
{
	CHECK(cs_join(count_call, NULL, count_call, NULL) == 0 && calls == 2);
}

static void a_blocking_section(void)
{
	/* The parent began one. */
	CHECK(cs_blocking_begin() == 0 && cs_blocking_end() == 0 && cs_blocking_end() == 0);
	CHECK(cs_blocking_end() == -EINVAL && cs_current_is_rescuer() == 0);
}

static void the_configuration(void)
{
	struct cs_config config = CS_CONFIG_INIT;

	/* It has not made its own yet. */
	CHECK(cs_configure(&config) == -EEXIST);
	runs_on_a_queue_of_its_own(&idle);
}

static void the_socket(void)
{
	/* The parent's is not this process's. */
	CHECK(cs_serve_insight() == 0 && cs_serve_insight() == 1);
	CHECK(cs_stop_insight() == 0 && cs_stop_insight() == 1);
}

static void the_socket_is_left_alone(void)
{
	CHECK(cs_stop_insight() == 1);
}

static void errors_and_checks(void)
{
	CHECK(cs_last_error());
	CHECK(!cs_set_check_handler(NULL));
	cs_check_free(&pending, sizeof(pending));
}

static void topologies(void)
{
	struct cs_topology *own = cs_topology_host(), *other = cs_topology_parse("pack:1 numa:1 l3:2 core:2 pu:1");

	CHECK(own && other && cs_topology_cpus(machine) == cs_topology_cpus(own));
	CHECK(cs_topology_llcs(machine) >= 1 && cs_topology_nodes(machine) >= 1);
	CHECK(cs_pods_count(pods) >= 1 && cs_pod_of(pods, 0) >= 0 && cs_pod_cpus(pods, 0));
	cs_pods_free(pods);
	pods = cs_pods(own, CS_SCOPE_NUMA, 0, NULL);
	CHECK(pods);
	cs_pods_free(pods);
	cs_topology_free(machine);
	cs_topology_free(other);
	cs_topology_free(own);
}

static void a_device(void)
{
	CHECK(!cs_block_target(host, "child", 0) && errno == ECHILD && strstr(cs_last_error(), "forked"));
	CHECK(!cs_block_memory_on(target, 4096) && errno == ECHILD);
	CHECK(!cs_block_open_on(target, "/proc/self/exe", 0) && errno == ECHILD);
	CHECK(cs_block_target_set_offline(target) == -ECHILD);
	CHECK(!cs_block_queue(device, 1));
	CHECK(cs_block_read(block_queue, 0, buffer, done, NULL) == -ECHILD && strstr(cs_last_error(), "forked"));
	CHECK(cs_block_write(block_queue, 0, buffer, done, NULL) == -ECHILD);
	CHECK(cs_block_flush(block_queue, done, NULL) == -ECHILD);
	CHECK(cs_block_poll(block_queue) == 0 && cs_block_wait(block_queue, UINT64_MAX) == 0);
	CHECK(cs_block_outstanding(block_queue) >= 0);
	CHECK(cs_block_buffer_length(buffer) == 4096 && cs_block_buffer_data(buffer));
	cs_block_buffer_free(buffer);
	cs_block_queue_close(block_queue);
	cs_block_close(device);
	cs_block_target_free(target);
	cs_block_host_free(host);
	CHECK(calls == 0);
}

static void devices_of_its_own(void)
{
	struct cs_block_host *host_here = cs_block_host(0, 1, 0);
	struct cs_block_target *target_here = cs_block_target(host_here, "child", 4);
	struct cs_block_device *own = cs_block_memory_on(target_here, 1 << 20);
	struct cs_block_queue *its = cs_block_queue(own, 0);
	struct cs_block_buffer *bytes = cs_block_buffer_alloc(4096);

	CHECK(own && its && bytes && cs_block_write(its, 0, bytes, done, NULL) == 0);
	while (!calls)
		CHECK(cs_block_wait(its, UINT64_MAX) >= 0);
	cs_block_queue_close(its);
	cs_block_close(own);
	cs_block_buffer_free(bytes);
	cs_block_target_free(target_here);
	cs_block_host_free(host_here);
	own = cs_block_open("/proc/self/exe", 0, 1);
	CHECK(own || errno != 0);
	cs_block_close(own);
}

static void real_time_tasks(void)
{
	struct cs_rt_periodic_stats stats = { 0, 0, 0 };

	CHECK(cs_rt_lacking(executor) >= 0);
	CHECK(!cs_rt_spawn(executor, 10, count_call, NULL) && errno == ECHILD);
	CHECK(!cs_rt_periodic(executor, 1000000, 10, count_call, NULL) && errno == ECHILD);
	CHECK(cs_rt_join(task_over) == 0);
	CHECK(cs_rt_join(task) == -ECHILD);
	CHECK(cs_rt_stop(periodic, &stats) >= 0);
	cs_rt_executor_free(executor);
	executor = cs_rt_executor(NULL, 1);
	CHECK(executor);
	task = cs_rt_spawn(executor, 10, count_call, NULL);
	CHECK(task && cs_rt_join(task) == 0 && calls == 1);
	cs_rt_executor_free(executor);
}

static void a_free_mutex(void)
{
	CHECK(cs_rt_mutex_lock(free_mutex) == 0 && cs_rt_mutex_unlock(free_mutex) == 0);
	CHECK(cs_rt_mutex_trylock(free_mutex) == 0 && cs_rt_mutex_unlock(free_mutex) == 0);
	cs_rt_mutex_free(free_mutex);
	free_mutex = cs_rt_mutex();
	CHECK(free_mutex);
	cs_rt_mutex_free(free_mutex);
}

static void a_mutex_that_this_thread_held(void)
{
	CHECK(cs_rt_mutex_trylock(held_mutex) < 0);
	CHECK(cs_rt_mutex_lock(held_mutex) < 0);
}

static void a_mutex_that_another_thread_held(void)
{
	CHECK(cs_rt_mutex_trylock(others_mutex) < 0);
	CHECK(cs_rt_mutex_lock(others_mutex) < 0);
}

/* In a child that was forked inside of one of the parent's works: the worker is its only thread. */
static void inside_a_work(void)
{
	was_pending(queue, &pending);
	CHECK(cs_flush_workqueue(queue) == -ECHILD && cs_drain_workqueue(queue) == -ECHILD);
	CHECK(cs_blocking_begin() == 0 && cs_blocking_end() == 0);
	CHECK(cs_join(count_call, NULL, count_call, NULL) == 0 && calls == 2);
	runs_on_a_queue_of_its_own(&idle);
}

/* ---- the parent ---- */

static void in_a_child(void (*row)(void), const char *name)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		alarm(20);
		row();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "forks: in a child: %s: %s\n", name,
			WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "it hangs" : "it failed");
		if (!getenv("CORESHARD_TEST_ALL"))
			abort();
	}
}

static const struct row in_children[] = {
	ROW(a_work_that_was_idle),
	ROW(a_work_that_ran),
	ROW(a_pending_work_cancelled),
	ROW(a_pending_work_set_up),
	ROW(a_pending_work_cancelled_and_waited_for),
	ROW(a_pending_work_disabled),
	ROW(a_pending_work_disabled_and_waited_for),
	ROW(a_pending_work_moved),
	ROW(a_delayed_work_cancelled),
	ROW(a_delayed_work_set_up),
	ROW(a_delayed_work_cancelled_and_waited_for),
	ROW(a_delayed_work_disabled),
	ROW(a_delayed_work_disabled_and_waited_for),
	ROW(a_delayed_work_moved),
	ROW(a_work_in_turn_cancelled),
	ROW(a_work_in_turn_set_up),
	ROW(a_work_in_turn_cancelled_and_waited_for),
	ROW(a_work_in_turn_disabled),
	ROW(a_work_in_turn_disabled_and_waited_for),
	ROW(a_work_in_turn_moved),
	ROW(a_work_that_was_disabled),
	ROW(a_work_that_was_never_queued),
	ROW(a_queue),
	ROW(a_frozen_queue),
	ROW(an_ordered_queue),
	ROW(the_processes_own_queues),
	ROW(queues_of_its_own),
	ROW(a_join),
	ROW(a_blocking_section),
	ROW(the_configuration),
	ROW(the_socket),
	ROW(the_socket_is_left_alone),
	ROW(errors_and_checks),
	ROW(topologies),
	ROW(a_device),
	ROW(devices_of_its_own),
	ROW(real_time_tasks),
	ROW(a_free_mutex),
	ROW(a_mutex_that_this_thread_held),
	ROW(a_mutex_that_another_thread_held),
};

static void fork_inside(void *argument)
{
	(void)argument;
	in_a_child(inside_a_work, "inside_a_work");
}

static _Atomic int enough;

/* So that locks are held when the fork comes. */
static void *queue_all_the_time(void *argument)
{
	struct cs_workqueue *busy = cs_alloc_workqueue("busy", 0, 0);
	struct cs_work works[8];
	unsigned int step;

	CHECK(busy);
	for (step = 0; step < 8; step++)
		cs_work_init(&works[step], let_others);
	for (step = 0; !enough; step++) {
		cs_queue_work(busy, &works[step % 8]);
		if (step % 3 == 0)
			cs_mod_delayed_work(busy, &works[(step + 3) % 8], 100000);
		if (step % 16 == 0)
			cs_cancel_work_sync(&works[step / 16 % 8]);
	}
	for (step = 0; step < 8; step++)
		cs_cancel_work_sync(&works[step]);
	CHECK(cs_destroy_workqueue(busy) == 0);
	return argument;
}

static void make_all(void)
{
	static struct cs_work first;
	static pthread_t holder;

	queue = cs_alloc_workqueue("parent", 0, 0);
	frozen = cs_alloc_workqueue("frozen", 0, 0);
	ordered = cs_alloc_workqueue("ordered", CS_WQ_ORDERED, 0);
	system_queue = cs_system_workqueue(CS_SYSTEM_WORKQUEUE_KIND_DEFAULT);
	CHECK(queue && frozen && ordered && system_queue);
	cs_work_init(&idle, count);
	CHECK(cs_queue_work(queue, &idle) == 1 && cs_flush_work(&idle) >= 0);
	cs_work_init(&runs, wait_for_leave);
	CHECK(cs_queue_work(queue, &runs) == 1);
	cs_work_init(&pending, count);
	CHECK(cs_freeze_workqueue(frozen) == 0 && cs_queue_work(frozen, &pending) == 1);
	cs_work_init(&delayed, count);
	CHECK(cs_queue_delayed_work(queue, &delayed, UINT64_C(3600000000000)) == 1);
	cs_work_init(&first, wait_for_leave);
	cs_work_init(&pending_in_turn, count);
	CHECK(cs_queue_work(ordered, &first) == 1 && cs_queue_work(ordered, &pending_in_turn) == 1);
	cs_work_init(&disabled, count);
	CHECK(cs_disable_work(&disabled) == 0);
	WAIT_UNTIL(has_begun);

	executor = cs_rt_executor(NULL, 1);
	task_over = cs_rt_spawn(executor, 10, count_call, NULL);
	WAIT_UNTIL(calls == 2);
	task = cs_rt_spawn(executor, 10, run_until_leave, NULL);
	periodic = cs_rt_periodic(executor, 1000000000, 10, tick, NULL);
	CHECK(executor && task && task_over && periodic);
	WAIT_UNTIL(task_has_begun);
	free_mutex = cs_rt_mutex();
	held_mutex = cs_rt_mutex();
	others_mutex = cs_rt_mutex();
	CHECK(cs_rt_mutex_lock(held_mutex) == 0);
	CHECK(pthread_create(&holder, NULL, hold_mutex, NULL) == 0);
	WAIT_UNTIL(others_mutex_is_held);

	host = cs_block_host(0, 2, -1);
	target = cs_block_target(host, "parent", 0);
	CHECK(host && target);
	device = cs_block_memory(1 << 20, 2);
	block_queue = cs_block_queue(device, 0);
	buffer = cs_block_buffer_alloc(4096);
	buffer_of_request = cs_block_buffer_alloc(4096);
	CHECK(device && block_queue && buffer && buffer_of_request);
	CHECK(cs_block_write(block_queue, 0, buffer_of_request, done, NULL) == 0);
	machine = cs_topology_host();
	pods = cs_pods(machine, CS_SCOPE_SYSTEM, 0, NULL);
	CHECK(machine && pods && cs_serve_insight() == 0 && cs_blocking_begin() == 0);
}

static size_t run_all(const char *only)
{
	size_t row, run = 0;

	for (row = 0; row < sizeof(in_children) / sizeof(*in_children); row++) {
		if (only && strcmp(only, in_children[row].name) != 0)
			continue;
		in_a_child(in_children[row].run, in_children[row].name);
		printf("ok %s\n", in_children[row].name);
		fflush(stdout);
		run++;
	}
	return run;
}

int main(int argc, char **argv)
{
	const char *limit = getenv("CORESHARD_TEST_LIMIT"), *only = argc > 1 ? argv[1] : NULL;
	pthread_t busy[2];
	size_t run, thread;

	alarm(limit ? (unsigned int)atoi(limit) : 120);
	make_all();
	calls = 0;
	run = run_all(only);
	CHECK(cs_call_on(queue, fork_inside, NULL) == 0);
	for (thread = 0; thread < 2; thread++)
		CHECK(pthread_create(&busy[thread], NULL, queue_all_the_time, NULL) == 0);
	CHECK(run_all(only) == run && cs_call_on(queue, fork_inside, NULL) == 0);
	enough = 1;
	for (thread = 0; thread < 2; thread++)
		CHECK(pthread_join(busy[thread], NULL) == 0);
	printf("%zu rows hold, and while others queue\n", run);
	/* The parent is as it was. */
	atomic_store(&let_go, 1);
	CHECK(cs_thaw_workqueue(frozen) == 0 && cs_flush_work(&pending) >= 0 && cs_flush_work(&pending_in_turn) >= 0);
	CHECK(cs_cancel_work_sync(&delayed) == 1 && cs_flush_workqueue(queue) == 0);
	CHECK(cs_rt_join(task) == 0 && cs_stop_insight() == 0);
	return run ? 0 : 1;
}
