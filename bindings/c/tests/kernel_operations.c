/*
 * The promises of docs/KERNEL-OPERATIONS.md, row by row, by the kernel's names. Each function is a row, or several that are
 * shown together; main has them in the page's order.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/wait.h>

/* Reports are counted. */
static _Atomic int warnings;
#define CORESHARD_KERNEL_WARN(text) ((void)(text), (void)atomic_fetch_add(&warnings, 1))
#define HZ 1000

#include "harness.h"

#include <coreshard/kernel_workqueue.h>

/* Longer than the test runs, in jiffies. */
#define LONG_DELAY (3600UL * HZ)

struct job {
	int before; /* not first: the work is found by its address */
	struct work_struct work;
	struct delayed_work delayed;
	struct workqueue_struct *wq;
	_Atomic int runs, inside, most, hold, begun, left, message, seen;
	struct job *other;
};

static struct job *job_of(struct work_struct *work) { return cs_container_of(work, struct job, work); }

static void count_run(struct work_struct *work)
{
	struct job *job = job_of(work);
	int inside = atomic_fetch_add(&job->inside, 1) + 1, most = job->most;

	while (inside > most && !atomic_compare_exchange_weak(&job->most, &most, inside))
		;
	atomic_store(&job->seen, atomic_load(&job->message));
	atomic_fetch_add(&job->begun, 1);
	WAIT_UNTIL(!atomic_load(&job->hold));
	atomic_fetch_sub(&job->inside, 1);
	atomic_fetch_add(&job->runs, 1);
}

static void count_delayed(struct work_struct *work)
{
	struct job *job = cs_container_of(to_delayed_work(work), struct job, delayed);

	atomic_fetch_add(&job->runs, 1);
}

static struct job *new_job(struct workqueue_struct *wq)
{
	struct job *job = calloc(1, sizeof(*job));

	INIT_WORK(&job->work, count_run);
	INIT_DELAYED_WORK(&job->delayed, count_delayed);
	job->wq = wq;
	return job;
}

static struct workqueue_struct *new_queue(unsigned int flags, int max_active)
{
	struct workqueue_struct *wq = alloc_workqueue("rows-%d", flags, max_active, max_active);

	CHECK(wq);
	return wq;
}

/* ---- items ---- */

static _Atomic int declared_runs;
static void count_declared(struct work_struct *work)
{
	(void)work;
	atomic_fetch_add(&declared_runs, 1);
}
static DECLARE_WORK(declared, count_declared);
static DECLARE_DELAYED_WORK(declared_delayed, count_declared);

static void declared_works_need_no_setting_up(void)
{
	CHECK(schedule_work(&declared));
	CHECK(flush_work(&declared) || declared_runs == 1);
	CHECK(schedule_delayed_work(&declared_delayed, 1));
	flush_delayed_work(&declared_delayed);
	CHECK(declared_runs == 2);
	flush_scheduled_work();
}

static DECLARE_DEFERRABLE_WORK(declared_deferrable, count_declared);
static struct work_struct initialized = __WORK_INITIALIZER(initialized, count_declared);
static struct delayed_work initialized_delayed = __DELAYED_WORK_INITIALIZER(initialized_delayed, count_declared, 0);

static void count_prepared(struct work_struct *work)
{
	(void)work;
	atomic_fetch_add(&declared_runs, 100);
}

static void run_delayed(struct delayed_work *work)
{
	CHECK(schedule_delayed_work(work, LONG_DELAY));
	CHECK(flush_delayed_work(work) && !delayed_work_pending(work));
}

static void each_way_to_set_a_work_up_runs_its_function(void)
{
	const work_func_t function = count_declared;
	struct delayed_work here, deferrable, deferrable_here;

	declared_runs = 0;
	INIT_DELAYED_WORK_ONSTACK(&here, function);
	INIT_DEFERRABLE_WORK(&deferrable, function);
	INIT_DEFERRABLE_WORK_ONSTACK(&deferrable_here, function);
	run_delayed(&here);
	run_delayed(&deferrable);
	run_delayed(&deferrable_here);
	run_delayed(&declared_deferrable);
	run_delayed(&initialized_delayed);
	CHECK(schedule_work(&initialized));
	flush_work(&initialized);
	CHECK(declared_runs == 6);
	PREPARE_WORK(&initialized, count_prepared);
	PREPARE_DELAYED_WORK(&here, count_prepared);
	CHECK(schedule_work(&initialized));
	flush_work(&initialized);
	run_delayed(&here);
	CHECK(declared_runs == 206);
	/* Without a delay, mod_delayed_work_on queues it at once. */
	CHECK(!mod_delayed_work_on(WORK_CPU_UNBOUND, system_wq, &here, LONG_DELAY));
	CHECK(mod_delayed_work_on(WORK_CPU_UNBOUND, system_wq, &here, 0));
	flush_delayed_work(&here);
	CHECK(declared_runs == 306);
	CHECK(!disable_work(&initialized) && !queue_work(system_wq, &initialized));
	CHECK(enable_work(&initialized) && queue_work(system_wq, &initialized));
	flush_work(&initialized);
	CHECK(declared_runs == 406);
	destroy_delayed_work_on_stack(&here);
	destroy_delayed_work_on_stack(&deferrable_here);
}

static void the_constants_are_what_they_are_said_to_be(void)
{
	const enum wq_flags none = (enum wq_flags)0;
	const enum wq_consts most = WQ_MAX_ACTIVE;
	const enum work_bits_of_busy both = (enum work_bits_of_busy)(WORK_BUSY_PENDING | WORK_BUSY_RUNNING);
	struct workqueue_struct *wq = alloc_workqueue("rows", __WQ_LEGACY | __WQ_ORDERED | WQ_UNBOUND, 1);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();

	CHECK(none == 0 && both == 3 && most == 2048);
	CHECK(WQ_UNBOUND_MAX_ACTIVE == WQ_MAX_ACTIVE && WQ_DFL_ACTIVE == WQ_MAX_ACTIVE / 2 && WQ_DFL_MIN_ACTIVE == 8);
	CHECK(WORKER_DESC_LEN == 32 && attrs->affn_scope == WQ_AFFN_DFL);
	/* An ordered queue keeps its order, and has no other limit. */
	warnings = 0;
	workqueue_set_min_active(wq, 4);
	CHECK(warnings == 0);
	workqueue_set_max_active(wq, 4);
	CHECK(warnings == 1);
	set_worker_desc("%s", "no effect");
	__flush_workqueue(wq);
	CHECK(system_dfl_long_wq == system_unbound_wq);
	CHECK(system_freezable_power_efficient_wq == system_power_efficient_wq);
	free_workqueue_attrs(attrs);
	destroy_workqueue(wq);
}

static void a_work_may_lie_on_the_stack(void)
{
	struct job job = { 0 };

	INIT_WORK_ONSTACK(&job.work, count_run);
	CHECK(schedule_work(&job.work));
	flush_work(&job.work);
	CHECK(job.runs == 1 && !work_busy(&job.work));
	destroy_work_on_stack(&job.work);
}

static void a_pending_work_is_not_queued_again(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 0);
	struct job *job = new_job(wq);

	atomic_store(&job->hold, 1);
	CHECK(!work_pending(&job->work) && !work_busy(&job->work));
	CHECK(queue_work(wq, &job->work));
	WAIT_UNTIL(job->begun == 1);
	CHECK(work_busy(&job->work) == WORK_BUSY_RUNNING);
	CHECK(queue_work(wq, &job->work));
	CHECK(work_pending(&job->work) && work_busy(&job->work) == (WORK_BUSY_PENDING | WORK_BUSY_RUNNING));
	CHECK(!queue_work(wq, &job->work));
	atomic_store(&job->hold, 0);
	CHECK(flush_work(&job->work));
	CHECK(job->runs == 2 && job->most == 1);
	destroy_workqueue(wq);
	free(job);
}

/* Both threads write, and queue: each refused queueing's write is seen by the run to come. */
static void what_was_written_before_a_refused_queueing_is_seen(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 0);
	struct job *job = new_job(wq);
	int turn, last = 0;

	for (turn = 1; turn <= 2000; turn++) {
		atomic_store_explicit(&job->message, turn, memory_order_relaxed);
		if (!queue_work(wq, &job->work))
			last = turn;
	}
	flush_work(&job->work);
	CHECK(atomic_load(&job->seen) >= last);
	CHECK(atomic_load(&job->seen) == 2000);
	destroy_workqueue(wq);
	free(job);
}

static void *queue_from_thread(void *argument)
{
	struct job *job = argument;
	int turn;

	for (turn = 0; turn < 500; turn++)
		atomic_fetch_add(&job->left, queue_work(turn % 2 ? job->wq : system_unbound_wq, &job->work));
	return NULL;
}

static void a_work_never_runs_on_two_workers_at_once(void)
{
	struct workqueue_struct *wq = new_queue(WQ_PERCPU, 0);
	struct job *job = new_job(wq);
	pthread_t threads[3];
	size_t thread;

	for (thread = 0; thread < 3; thread++)
		CHECK(pthread_create(&threads[thread], NULL, queue_from_thread, job) == 0);
	for (thread = 0; thread < 3; thread++)
		pthread_join(threads[thread], NULL);
	flush_work(&job->work);
	CHECK(job->most == 1);
	CHECK(job->runs == job->left); /* each queueing has run once */
	destroy_workqueue(wq);
	free(job);
}

static void queue_again(struct work_struct *work)
{
	struct job *job = job_of(work);

	atomic_fetch_add(&job->runs, 1);
	if (atomic_fetch_sub(&job->left, 1) > 1)
		CHECK(queue_work(job->wq, work));
}

static void a_work_may_queue_itself(void)
{
	unsigned int kind;

	for (kind = 0; kind < 3; kind++) {
		struct workqueue_struct *wq = kind == 2 ? alloc_ordered_workqueue("rows", 0) :
							  new_queue(WQ_UNBOUND, kind ? 2 : 0);
		struct job *job = new_job(wq);

		INIT_WORK(&job->work, queue_again);
		job->left = 300;
		CHECK(queue_work(wq, &job->work));
		drain_workqueue(wq);
		CHECK(job->runs == 300);
		destroy_workqueue(wq);
		free(job);
	}
}

static _Atomic int freed;
static void free_itself(struct work_struct *work)
{
	memset(work, 0xa5, sizeof(*work));
	free(job_of(work));
	atomic_fetch_add(&freed, 1);
}

static void a_work_may_free_itself(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 0);
	int turn;

	for (turn = 0; turn < 300; turn++) {
		struct job *job = new_job(wq);

		INIT_WORK(&job->work, free_itself);
		CHECK(queue_work(wq, &job->work));
	}
	flush_workqueue(wq);
	CHECK(freed == 300);
	destroy_workqueue(wq);
}

static _Atomic int where;
static void note_cpu(struct work_struct *work)
{
	(void)work;
	atomic_store(&where, sched_getcpu());
}

static void a_bound_work_runs_on_its_cpu(void)
{
	struct workqueue_struct *wq = new_queue(WQ_PERCPU, 0);
	DECLARE_WORK(work, note_cpu);
	cpu_set_t usable;
	int cpu;

	CHECK(sched_getaffinity(0, sizeof(usable), &usable) == 0);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &usable))
			continue;
		CHECK(queue_work_on(cpu, wq, &work));
		flush_work(&work);
		CHECK(atomic_load(&where) == cpu);
	}
	CHECK(queue_work_on(WORK_CPU_UNBOUND, wq, &work));
	flush_work(&work);
	warnings = 0;
	CHECK(!queue_work_on(60000, wq, &work) && warnings == 1);
	CHECK(!queue_work_node(60000, wq, &work) && warnings == 2);
	CHECK(queue_work_node(-1, wq, &work));
	destroy_workqueue(wq);
}

static void the_processes_bound_queues_run_works_on_their_cpu(void)
{
	struct workqueue_struct *const bound[] = { system_wq,		system_percpu_wq,  system_long_wq,	system_freezable_wq,
						   system_highpri_wq,	system_bh_wq,	   system_bh_highpri_wq };
	DECLARE_WORK(work, note_cpu);
	DECLARE_DELAYED_WORK(delayed, note_cpu);
	cpu_set_t usable;
	size_t queue;
	int cpu;

	CHECK(sched_getaffinity(0, sizeof(usable), &usable) == 0);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &usable))
			continue;
		for (queue = 0; queue < sizeof(bound) / sizeof(*bound); queue++) {
			CHECK(bound[queue] && queue_work_on(cpu, bound[queue], &work));
			flush_work(&work);
			CHECK(atomic_load(&where) == cpu);
		}
		CHECK(schedule_work_on(cpu, &work));
		flush_work(&work);
		CHECK(atomic_load(&where) == cpu);
		atomic_store(&where, -1);
		CHECK(schedule_delayed_work_on(cpu, &delayed, 1));
		flush_delayed_work(&delayed);
		CHECK(atomic_load(&where) == cpu);
	}
}

static void a_function_runs_on_each_cpu(void)
{
	cpu_set_t usable;

	CHECK(sched_getaffinity(0, sizeof(usable), &usable) == 0);
	declared_runs = 0;
	CHECK(schedule_on_each_cpu(count_declared) == 0);
	CHECK(declared_runs == CPU_COUNT(&usable));
}

static void a_call_in_process_context_is_a_call(void)
{
	struct execute_work work;

	declared_runs = 0;
	INIT_WORK(&work.work, count_declared);
	CHECK(execute_in_process_context(count_declared, &work) == 0 && declared_runs == 1);
}

static void a_delay_can_be_changed_cancelled_and_brought_forward(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 0);
	struct job *job = new_job(wq);

	/* A zero delay queues at once. */
	CHECK(queue_delayed_work(wq, &job->delayed, 0));
	flush_delayed_work(&job->delayed);
	CHECK(job->runs == 1);
	CHECK(queue_delayed_work(wq, &job->delayed, LONG_DELAY) && delayed_work_pending(&job->delayed));
	CHECK(!queue_delayed_work(wq, &job->delayed, 1));
	CHECK(cancel_delayed_work(&job->delayed) && !cancel_delayed_work(&job->delayed));
	CHECK(queue_delayed_work_on(WORK_CPU_UNBOUND, wq, &job->delayed, LONG_DELAY));
	CHECK(flush_delayed_work(&job->delayed) && job->runs == 2);
	CHECK(!mod_delayed_work(wq, &job->delayed, LONG_DELAY));
	CHECK(mod_delayed_work(wq, &job->delayed, 1));
	WAIT_UNTIL(job->runs == 3);
	CHECK(schedule_delayed_work(&job->delayed, LONG_DELAY) && cancel_delayed_work_sync(&job->delayed));
	warnings = 0;
	CHECK(!queue_delayed_work(wq, &job->delayed, ~0UL) && warnings == 1);
	CHECK(job->runs == 3 && !delayed_work_pending(&job->delayed));
	destroy_workqueue(wq);
	free(job);
}

static void flush_itself(struct work_struct *work)
{
	CHECK(!flush_work(work) && !cancel_work_sync(work) && !disable_work_sync(work));
}

static void flush_behind(struct work_struct *work)
{
	struct job *job = job_of(work);

	CHECK(queue_work(job->wq, &job->other->work));
	CHECK(!flush_work(&job->other->work));
	flush_workqueue(job->wq);
	drain_workqueue(job->wq);
	/* The checking mode ends the process there. */
	if (getenv("CORESHARD_CHECK"))
		atomic_fetch_add(&warnings, 1);
	else
		destroy_workqueue(job->wq);
}

static void a_wait_that_could_never_end_warns_and_returns(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("rows", 0);
	struct job *job = new_job(wq), *other = new_job(wq);

	warnings = 0;
	INIT_WORK(&job->work, flush_itself);
	CHECK(queue_work(wq, &job->work));
	flush_workqueue(wq);
	CHECK(warnings == 3);
	INIT_WORK(&job->work, flush_behind);
	job->other = other;
	CHECK(queue_work(wq, &job->work));
	flush_workqueue(wq);
	flush_work(&other->work);
	CHECK(warnings == 7 && other->runs == 1);
	destroy_workqueue(wq);
	free(job);
	free(other);
}

static void a_cancelled_work_does_not_run_and_may_be_freed(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("rows", 0);
	struct job *first = new_job(wq), *job = new_job(wq);
	int turn;

	atomic_store(&first->hold, 1);
	CHECK(queue_work(wq, &first->work));
	for (turn = 0; turn < 10; turn++) {
		CHECK(queue_work(wq, &job->work));
		CHECK(cancel_work(&job->work) && !cancel_work(&job->work));
	}
	CHECK(queue_work(wq, &job->work) && cancel_work_sync(&job->work));
	free(job);
	job = new_job(wq);
	CHECK(queue_work(wq, &job->work));
	atomic_store(&first->hold, 0);
	flush_workqueue(wq);
	CHECK(first->runs == 1 && job->runs == 1);
	destroy_workqueue(wq);
	free(first);
	free(job);
}

static void *cancel_from_thread(void *argument)
{
	struct job *job = argument;

	cancel_work_sync(&job->work);
	/* Nothing of it runs any more. */
	CHECK(job->inside == 0);
	atomic_store(&job->seen, job->runs);
	return NULL;
}

static void a_cancel_that_waits_returns_after_the_run(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 0);
	struct job *job = new_job(wq);
	pthread_t thread;

	atomic_store(&job->hold, 1);
	CHECK(queue_work(wq, &job->work));
	WAIT_UNTIL(job->begun == 1);
	CHECK(queue_work(wq, &job->work));
	CHECK(pthread_create(&thread, NULL, cancel_from_thread, job) == 0);
	WAIT_UNTIL(!work_pending(&job->work));
	/* It is not queued meanwhile. */
	CHECK(!queue_work(wq, &job->work));
	atomic_store(&job->hold, 0);
	pthread_join(thread, NULL);
	CHECK(job->seen == 1 && job->runs == 1);
	CHECK(queue_work(wq, &job->work) && flush_work(&job->work) + 1 && job->runs == 2);
	destroy_workqueue(wq);
	free(job);
}

static void disables_nest(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 0);
	struct job *job = new_job(wq);

	warnings = 0;
	CHECK(queue_delayed_work(wq, &job->delayed, LONG_DELAY));
	CHECK(disable_delayed_work(&job->delayed) && !disable_delayed_work_sync(&job->delayed));
	CHECK(!queue_delayed_work(wq, &job->delayed, 0) && !mod_delayed_work(wq, &job->delayed, 0));
	CHECK(!enable_delayed_work(&job->delayed) && enable_delayed_work(&job->delayed));
	CHECK(warnings == 0);
	CHECK(!enable_delayed_work(&job->delayed) && warnings == 1);
	CHECK(!disable_work(&job->work) && !disable_work_sync(&job->work) && !queue_work(wq, &job->work));
	CHECK(!enable_and_queue_work(wq, &job->work) && enable_and_queue_work(wq, &job->work));
	flush_workqueue(wq);
	CHECK(job->runs == 1);
	destroy_workqueue(wq);
	free(job);
}

/* ---- queues ---- */

static void what_cannot_be_made_says_why(void)
{
	struct cs_workqueue_attrs attrs = CS_WORKQUEUE_ATTRS_INIT;

	attrs.cpus = "60000";
	errno = 0;
	CHECK(!cs_alloc_workqueue_attrs("rows", &attrs) && errno == EINVAL);
	CHECK(strstr(cs_last_error(), "60000"));
	attrs.cpus = NULL;
	attrs.scope = 99;
	CHECK(!cs_alloc_workqueue_attrs("rows", &attrs) && strstr(cs_last_error(), "99"));
	attrs.scope = 0;
	attrs.flags = 1u << 30;
	CHECK(!cs_alloc_workqueue_attrs("rows", &attrs));
	CHECK(!cs_alloc_workqueue("rows", CS_WQ_ORDERED, 4) && strstr(cs_last_error(), "order"));
	CHECK(!cs_alloc_workqueue("rows", 0, -1));
	CHECK(cs_queue_work(NULL, cs_of_work(&declared)) == -EINVAL && cs_flush_work(NULL) == -EINVAL);
	CHECK(cs_destroy_workqueue(NULL) == -EINVAL);
}

static void all_kinds_of_queues_run_works(void)
{
	struct workqueue_struct *queues[] = {
		alloc_workqueue("%s-%d", WQ_UNBOUND, 0, "rows", 7),
		alloc_workqueue("rows", WQ_PERCPU | WQ_CPU_INTENSIVE | WQ_SYSFS, WQ_DFL_ACTIVE),
		alloc_workqueue("rows", WQ_HIGHPRI, WQ_MAX_ACTIVE),
		alloc_workqueue("rows", WQ_BH, 0),
		alloc_workqueue("rows", WQ_MEM_RECLAIM | WQ_FREEZABLE, 1),
		alloc_workqueue("rows", WQ_POWER_EFFICIENT, 0),
		alloc_ordered_workqueue("rows-%s", WQ_MEM_RECLAIM, "ordered"),
		create_workqueue("rows"),
		create_freezable_workqueue("rows"),
		create_singlethread_workqueue("rows"),
	};
	size_t queue;

	CHECK(strcmp(cs_workqueue_name(cs_of_queue(queues[0])), "rows-7") == 0);
	for (queue = 0; queue < sizeof(queues) / sizeof(*queues); queue++) {
		struct job *job = new_job(queues[queue]);

		CHECK(queue_work(queues[queue], &job->work));
		destroy_workqueue(queues[queue]); /* what was queued is run before */
		CHECK(job->runs == 1);
		free(job);
	}
	CHECK(system_wq && system_highpri_wq && system_long_wq && system_unbound_wq && system_freezable_wq &&
	      system_power_efficient_wq && system_dfl_wq && system_percpu_wq && system_bh_wq);
	CHECK(system_unbound_wq == system_dfl_wq && system_wq == system_percpu_wq);
}

#ifndef WITHOUT_FORKS
/* The only other worker waits for a work behind its own: a thread of the reserve runs that. */
static _Atomic int rescued;

static void note_the_rescuer(struct work_struct *work)
{
	struct job *job = job_of(work);

	atomic_fetch_add(&rescued, current_is_workqueue_rescuer());
	if (job->other) {
		cs_blocking_begin();
		WAIT_UNTIL(atomic_load(&job->other->runs));
		cs_blocking_end();
	}
	atomic_fetch_add(&job->runs, 1);
}

static void a_rescuer_knows_that_it_is_one(void)
{
	/* No other row has begun the library yet: this one's process has no second worker. */
	struct cs_config config = CS_CONFIG_INIT;
	int status, turn;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		struct workqueue_struct *wq;

		config.max_workers = 1;
		CHECK(cs_configure(&config) == 0);
		wq = new_queue(WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
		CHECK(!current_is_workqueue_rescuer());
		for (turn = 1; turn <= 20; turn++) {
			struct job *first = new_job(wq), *second = new_job(wq);

			INIT_WORK(&first->work, note_the_rescuer);
			INIT_WORK(&second->work, note_the_rescuer);
			first->other = second;
			CHECK(queue_work(wq, &first->work) && queue_work(wq, &second->work));
			flush_workqueue(wq);
			CHECK(atomic_load(&rescued) == turn);
			free(first);
			free(second);
		}
		destroy_workqueue(wq);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

#define MANY 200

struct order {
	struct work_struct work;
	int number;
};
static _Atomic int next_in_order, at_once, most_at_once;

static void in_order(struct work_struct *work)
{
	struct order *order = cs_container_of(work, struct order, work);

	CHECK(atomic_fetch_add(&at_once, 1) == 0);
	CHECK(atomic_fetch_add(&next_in_order, 1) == order->number);
	atomic_fetch_sub(&at_once, 1);
}

static void an_ordered_queue_runs_one_work_at_a_time_in_order(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("rows", 0);
	static struct order orders[MANY];
	int number;

	for (number = 0; number < MANY; number++) {
		orders[number].number = number;
		INIT_WORK(&orders[number].work, in_order);
		CHECK(queue_work(wq, &orders[number].work));
	}
	flush_workqueue(wq);
	CHECK(next_in_order == MANY);
	/* Its limit stays. */
	warnings = 0;
	workqueue_set_max_active(wq, 4);
	CHECK(warnings == 1);
	destroy_workqueue(wq);
}

static void note_most(struct work_struct *work)
{
	int inside = atomic_fetch_add(&at_once, 1) + 1, most = most_at_once;

	(void)work;
	while (inside > most && !atomic_compare_exchange_weak(&most_at_once, &most, inside))
		;
	usleep(200);
	atomic_fetch_sub(&at_once, 1);
}

static void max_active_is_never_exceeded_and_can_be_changed(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 2);
	static struct work_struct works[MANY];
	int number;

	most_at_once = 0;
	for (number = 0; number < MANY; number++) {
		INIT_WORK(&works[number], note_most);
		CHECK(queue_work(wq, &works[number]));
	}
	flush_workqueue(wq);
	CHECK(most_at_once >= 1 && most_at_once <= 2);
	workqueue_set_max_active(wq, 1);
	most_at_once = 0;
	for (number = 0; number < MANY / 4; number++)
		CHECK(queue_work(wq, &works[number]));
	CHECK(workqueue_congested(WORK_CPU_UNBOUND, wq));
	flush_workqueue(wq);
	CHECK(most_at_once == 1);
	destroy_workqueue(wq);
}

/* The first two CPUs that this process may use; false if there is one. */
static bool two_cpus(int cpus[2])
{
	cpu_set_t usable;
	int cpu, found = 0;

	CHECK(sched_getaffinity(0, sizeof(usable), &usable) == 0);
	for (cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
		if (CPU_ISSET(cpu, &usable))
			cpus[found++] = cpu;
	}
	return found == 2;
}

/* Works that hold their turns: as many as may be begin on a CPU, and more on another one. Then the limit is raised and lowered. */
static void hold_turns(struct workqueue_struct *wq)
{
	struct job *here[4], *there[2];
	int cpus[2], number;
	size_t job;

	CHECK(wq);
	if (!two_cpus(cpus)) {
		printf("SKIPPED for lack of CPUs: 2\n");
		destroy_workqueue(wq);
		return;
	}
	for (job = 0; job < 4; job++) {
		here[job] = new_job(wq);
		atomic_store(&here[job]->hold, 1);
		CHECK(queue_work_on(cpus[0], wq, &here[job]->work));
	}
	WAIT_UNTIL(here[0]->begun == 1);
	/* The other CPU's turns are its own. */
	for (job = 0; job < 2; job++) {
		there[job] = new_job(wq);
		CHECK(queue_work_on(cpus[1], wq, &there[job]->work));
		flush_work(&there[job]->work);
		CHECK(there[job]->runs == 1);
	}
	CHECK(workqueue_congested(cpus[0], wq));
	CHECK(here[1]->begun + here[2]->begun + here[3]->begun == 0);
	workqueue_set_max_active(wq, 2);
	WAIT_UNTIL(here[1]->begun == 1);
	CHECK(workqueue_congested(cpus[0], wq) && here[2]->begun + here[3]->begun == 0);
	workqueue_set_max_active(wq, 1);
	atomic_store(&here[0]->hold, 0);
	flush_work(&here[0]->work);
	/* One has its turn, which is all there are. */
	CHECK(here[1]->begun == 1 && here[2]->begun == 0 && workqueue_congested(cpus[0], wq));
	workqueue_set_max_active(wq, 0);
	WAIT_UNTIL(here[2]->begun == 1 && here[3]->begun == 1);
	CHECK(!workqueue_congested(cpus[0], wq));
	for (number = 1; number < 4; number++)
		atomic_store(&here[number]->hold, 0);
	destroy_workqueue(wq);
	for (job = 0; job < 4; job++)
		free(here[job]);
	for (job = 0; job < 2; job++)
		free(there[job]);
}

static void a_limit_of_a_bound_queue_is_of_each_cpu(void)
{
	hold_turns(alloc_workqueue("rows", WQ_PERCPU, 1));
	/* Without WQ_UNBOUND it is also bound. */
	hold_turns(alloc_workqueue("rows", 0, 1));
	hold_turns(alloc_workqueue("rows", WQ_CPU_INTENSIVE | WQ_FREEZABLE, 1));
}

static void a_legacy_queue_runs_one_work_on_each_cpu(void)
{
	hold_turns(create_workqueue("rows"));
}

static void flush_other(struct work_struct *work)
{
	struct job *job = job_of(work);

	flush_work(&job->other->work);
	CHECK(job->other->runs == 1);
	atomic_fetch_add(&job->runs, 1);
}

/* It has no turn that the other one needs. */
static void a_bound_work_may_wait_for_one_of_another_cpu(void)
{
	struct workqueue_struct *wq = create_workqueue("rows");
	struct job *waits = new_job(wq), *other = new_job(wq);
	int cpus[2];

	if (two_cpus(cpus)) {
		INIT_WORK(&waits->work, flush_other);
		waits->other = other;
		atomic_store(&other->hold, 1);
		warnings = 0;
		CHECK(queue_work_on(cpus[1], wq, &other->work) && queue_work_on(cpus[0], wq, &waits->work));
		WAIT_UNTIL(other->begun == 1);
		atomic_store(&other->hold, 0);
		flush_work(&waits->work);
		CHECK(waits->runs == 1 && warnings == 0);
	}
	destroy_workqueue(wq);
	free(waits);
	free(other);
}

static void attributes_leave_the_limit(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 1), *bound = new_queue(WQ_PERCPU, 1);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct job *first = new_job(wq), *second = new_job(wq);

	attrs->affn_scope = WQ_AFFN_SYSTEM;
	atomic_store(&first->hold, 1);
	CHECK(queue_work(wq, &first->work));
	WAIT_UNTIL(first->begun == 1);
	CHECK(apply_workqueue_attrs(wq, attrs) == 0);
	CHECK(queue_work(wq, &second->work));
	CHECK(workqueue_congested(WORK_CPU_UNBOUND, wq) && second->begun == 0);
	atomic_store(&first->hold, 0);
	flush_work(&second->work);
	CHECK(first->runs == 1 && second->runs == 1);
	warnings = 0;
	CHECK(apply_workqueue_attrs(bound, attrs) == -EINVAL && warnings == 1);
	free_workqueue_attrs(attrs);
	destroy_workqueue(wq);
	destroy_workqueue(bound);
	free(first);
	free(second);
}

static void delays_are_rounded_up_to_jiffies(void)
{
	CHECK(msecs_to_jiffies(0) == 0 && msecs_to_jiffies(1) == 1 && msecs_to_jiffies(1500) == 1500);
	CHECK(usecs_to_jiffies(0) == 0 && usecs_to_jiffies(1) == 1 && usecs_to_jiffies(1001) == 2);
	CHECK(secs_to_jiffies(0) == 0 && secs_to_jiffies(3) == 3 * HZ);
	CHECK(msecs_to_jiffies((unsigned int)-1) == MAX_JIFFY_OFFSET);
	CHECK(msecs_to_jiffies(INT_MAX) == INT_MAX && secs_to_jiffies(UINT_MAX) <= MAX_JIFFY_OFFSET);
	CHECK(jiffies_to_msecs(1500) == 1500 && jiffies_to_msecs(msecs_to_jiffies(77)) == 77);
	/* By other sizes of a jiffy. */
	CHECK(cs_jiffies_of(999, 1000) == 999 && cs_jiffies_of(UINT64_MAX, 1) == MAX_JIFFY_OFFSET);
}

static void memory_is_had_and_given_back(void)
{
	static const gfp_t kinds[] = { GFP_KERNEL, GFP_ATOMIC, GFP_NOWAIT, GFP_NOIO, GFP_NOFS };
	size_t kind, byte;
	char *memory;

	for (kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
		memory = (char *)kmalloc(100, kinds[kind]);
		CHECK(memory && memset(memory, 1, 100));
		kfree(memory);
		memory = (char *)kcalloc(10, 10, kinds[kind]);
		for (byte = 0; byte < 100; byte++)
			CHECK(memory[byte] == 0);
		kfree(memory);
		memory = (char *)kmalloc(64, kinds[kind] | __GFP_ZERO);
		CHECK(memory && memory[63] == 0);
		kfree(memory);
	}
	memory = (char *)kzalloc(0, GFP_KERNEL);
	CHECK(memory);
	kfree(memory);
	kfree(NULL);
	CHECK(!kmalloc_array(SIZE_MAX / 2, 3, GFP_KERNEL) && !kcalloc(SIZE_MAX / 2, 3, GFP_KERNEL));
}

struct message {
	int before;
	struct work_struct work;
	int text, is_there, answer;
};

/* The writer's other half. */
static void answer(struct work_struct *work)
{
	struct message *message = container_of(work, struct message, work);

	WAIT_UNTIL(smp_load_acquire(&message->is_there));
	CHECK(message->text == 17);
	WRITE_ONCE(message->answer, READ_ONCE(message->text) + 1);
}

static void what_is_published_is_seen_by_a_work(void)
{
	struct message message = { 1, { NULL, NULL, { 0 } }, 0, 0, 0 };

	INIT_WORK(&message.work, answer);
	CHECK(container_of(&message.work, struct message, work) == &message);
	CHECK(schedule_work(&message.work));
	message.text = 17;
	smp_store_release(&message.is_there, 1);
	flush_work(&message.work);
	smp_mb();
	smp_rmb();
	smp_wmb();
	barrier();
	CHECK(READ_ONCE(message.answer) == 18);
}

static pthread_barrier_t together;
static void meet(struct work_struct *work)
{
	(void)work;
	CHECK(cs_blocking_begin() == 0);
	pthread_barrier_wait(&together);
	CHECK(cs_blocking_end() == 0);
}

static void eight_works_that_wait_for_one_another_go_on(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 8);
	static struct work_struct works[8];
	int number;

	CHECK(pthread_barrier_init(&together, NULL, 8) == 0);
	for (number = 0; number < 8; number++) {
		INIT_WORK(&works[number], meet);
		CHECK(queue_work(wq, &works[number]));
	}
	flush_workqueue(wq);
	pthread_barrier_destroy(&together);
	destroy_workqueue(wq);
	CHECK(cs_blocking_end() == -EINVAL);
}

static void a_flush_waits_for_what_was_queued_before_and_not_for_what_comes_after(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 0);
	struct job *before = new_job(wq), *after = new_job(wq), *late = new_job(wq);

	CHECK(queue_delayed_work(wq, &late->delayed, LONG_DELAY));
	CHECK(queue_work(wq, &before->work));
	flush_workqueue(wq);
	CHECK(before->runs == 1 && delayed_work_pending(&late->delayed));
	atomic_store(&after->hold, 1);
	CHECK(queue_work(wq, &before->work));
	flush_workqueue(wq);
	CHECK(queue_work(wq, &after->work));
	CHECK(before->runs == 2 && after->runs == 0);
	atomic_store(&after->hold, 0);
	CHECK(cancel_delayed_work_sync(&late->delayed));
	destroy_workqueue(wq);
	CHECK(after->runs == 1 && late->runs == 0);
	free(before);
	free(after);
	free(late);
}

static void *drain_from_thread(void *wq)
{
	drain_workqueue(wq);
	return NULL;
}

static void a_drain_takes_works_from_the_queue_itself_alone(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 0);
	struct job *job = new_job(wq), *foreign = new_job(wq);
	pthread_t thread;

	warnings = 0;
	atomic_store(&job->hold, 1);
	CHECK(queue_work(wq, &job->work));
	CHECK(pthread_create(&thread, NULL, drain_from_thread, wq) == 0);
	/* Refused once the drain has begun; what came before is run. */
	while (queue_work(wq, &foreign->work) || work_busy(&foreign->work))
		WAIT_UNTIL(!work_busy(&foreign->work));
	CHECK(warnings == 1);
	atomic_store(&job->hold, 0);
	pthread_join(thread, NULL);
	CHECK(queue_work(wq, &foreign->work)); /* it is open again */
	destroy_workqueue(wq);
	free(job);
	free(foreign);
}

static void a_frozen_queue_begins_nothing_and_loses_nothing(void)
{
	struct workqueue_struct *wq = new_queue(WQ_FREEZABLE, 0);
	struct job *job = new_job(wq);
	struct cs_workqueue_stats stats;

	CHECK(cs_freeze_workqueue(cs_of_queue(wq)) == 0);
	CHECK(queue_work(wq, &job->work));
	usleep(2000);
	CHECK(job->begun == 0 && work_pending(&job->work) && workqueue_congested(0, wq));
	CHECK(cs_workqueue_stats(cs_of_queue(wq), &stats, sizeof(stats)) == 0);
	CHECK(stats.is_frozen == 1 && stats.waiting == 1 && stats.pools >= 1);
	CHECK(cs_thaw_workqueue(cs_of_queue(wq)) == 0);
	CHECK(flush_work(&job->work) + 1 && job->runs == 1);
	/* One that is destroyed while it is frozen loses nothing, either. */
	CHECK(cs_freeze_workqueue(cs_of_queue(wq)) == 0 && queue_work(wq, &job->work));
	destroy_workqueue(wq);
	CHECK(job->runs == 2);
	free(job);
}

static void attributes_change_under_load(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 0);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	static const enum wq_affn_scope scopes[] = { WQ_AFFN_CPU, WQ_AFFN_SMT, WQ_AFFN_CACHE_SHARD,
						     WQ_AFFN_CACHE, WQ_AFFN_NUMA, WQ_AFFN_SYSTEM };
	static struct job jobs[8];
	int turn, queued = 0, runs = 0;
	size_t job;

	for (job = 0; job < 8; job++)
		INIT_WORK(&jobs[job].work, count_run);
	for (turn = 0; turn < 60; turn++) {
		for (job = 0; job < 8; job++)
			queued += queue_work(wq, &jobs[job].work);
		attrs->affn_scope = scopes[turn % 6];
		attrs->affn_strict = turn % 2;
		CHECK(apply_workqueue_attrs(wq, attrs) == 0);
	}
	flush_workqueue(wq);
	for (job = 0; job < 8; job++)
		runs += jobs[job].runs;
	CHECK(runs == queued);
	/* A change that cannot be made leaves the queue as it was. */
	attrs->cpumask = "60000";
	CHECK(apply_workqueue_attrs(wq, attrs) == -EINVAL);
	CHECK(queue_work(wq, &jobs[0].work));
	free_workqueue_attrs(attrs);
	destroy_workqueue(wq);
}

static void a_destroyed_queue_has_run_all(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 1);
	static struct job jobs[MANY];
	int number, runs = 0;

	for (number = 0; number < MANY; number++) {
		INIT_WORK(&jobs[number].work, count_run);
		CHECK(queue_work(wq, &jobs[number].work));
	}
	destroy_workqueue(wq);
	for (number = 0; number < MANY; number++)
		runs += jobs[number].runs;
	CHECK(runs == MANY);
}

#ifndef WITHOUT_FORKS
static void a_forked_child_gets_errors_and_can_begin_anew(void)
{
	struct workqueue_struct *wq = new_queue(WQ_UNBOUND, 0);
	struct job *job = new_job(wq);
	int status;
	pid_t child;

	CHECK(queue_work(wq, &job->work));
	flush_work(&job->work);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct workqueue_struct *own;

		if (cs_queue_work(cs_of_queue(wq), cs_of_work(&job->work)) != -ECHILD)
			_exit(1);
		if (cs_flush_workqueue(cs_of_queue(wq)) != -ECHILD || cs_destroy_workqueue(cs_of_queue(wq)) != 0)
			_exit(2);
		own = alloc_workqueue("child", WQ_UNBOUND, 0);
		INIT_WORK(&job->work, count_run);
		if (!own || !queue_work(own, &job->work))
			_exit(3);
		flush_workqueue(own);
		_exit(job->runs == 2 ? 0 : 4);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	destroy_workqueue(wq);
	free(job);
}

#endif

/* ---- all operations at once ---- */

#define JOBS 4
static struct job at_random[JOBS];
static _Atomic int queued_at_random, cancelled_at_random;

static void *at_once_from_thread(void *argument)
{
	unsigned int random = (unsigned int)(size_t)argument + 1;
	int step;

	for (step = 0; step < 1500; step++) {
		struct job *job;

		random = random * 1664525u + 1013904223u;
		job = &at_random[(random >> 8) % JOBS];
		switch ((random >> 20) % 8) {
		case 0:
		case 1:
		case 2:
			atomic_fetch_add(&queued_at_random, queue_work(job->wq, &job->work));
			break;
		case 3:
			atomic_fetch_add(&queued_at_random, queue_work(system_unbound_wq, &job->work));
			break;
		case 4:
			atomic_fetch_add(&cancelled_at_random, cancel_work(&job->work));
			break;
		case 5:
			atomic_fetch_add(&cancelled_at_random, cancel_work_sync(&job->work));
			break;
		case 6:
			flush_work(&job->work);
			break;
		default:
			work_busy(&job->work);
		}
	}
	return NULL;
}

static void operations_at_once_lose_and_duplicate_nothing(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("rows", 0);
	pthread_t threads[3];
	size_t job, thread;
	int runs = 0;

	for (job = 0; job < JOBS; job++) {
		INIT_WORK(&at_random[job].work, count_run);
		at_random[job].wq = wq;
	}
	for (thread = 0; thread < 3; thread++)
		CHECK(pthread_create(&threads[thread], NULL, at_once_from_thread, (void *)thread) == 0);
	for (thread = 0; thread < 3; thread++)
		pthread_join(threads[thread], NULL);
	for (job = 0; job < JOBS; job++) {
		flush_work(&at_random[job].work);
		runs += at_random[job].runs;
		CHECK(at_random[job].most <= 1);
	}
	CHECK(runs == queued_at_random - cancelled_at_random);
	destroy_workqueue(wq);
}

int main(int argc, char **argv)
{
	static const struct row rows[] = {
#ifndef WITHOUT_FORKS
		ROW(a_rescuer_knows_that_it_is_one),
#endif
		ROW(declared_works_need_no_setting_up),
		ROW(each_way_to_set_a_work_up_runs_its_function),
		ROW(the_constants_are_what_they_are_said_to_be),
		ROW(a_work_may_lie_on_the_stack),
		ROW(a_pending_work_is_not_queued_again),
		ROW(what_was_written_before_a_refused_queueing_is_seen),
		ROW(a_work_never_runs_on_two_workers_at_once),
		ROW(a_work_may_queue_itself),
		ROW(a_work_may_free_itself),
		ROW(a_bound_work_runs_on_its_cpu),
		ROW(the_processes_bound_queues_run_works_on_their_cpu),
		ROW(a_function_runs_on_each_cpu),
		ROW(a_call_in_process_context_is_a_call),
		ROW(a_delay_can_be_changed_cancelled_and_brought_forward),
		ROW(a_wait_that_could_never_end_warns_and_returns),
		ROW(a_cancelled_work_does_not_run_and_may_be_freed),
		ROW(a_cancel_that_waits_returns_after_the_run),
		ROW(disables_nest),
		ROW(what_cannot_be_made_says_why),
		ROW(all_kinds_of_queues_run_works),
		ROW(an_ordered_queue_runs_one_work_at_a_time_in_order),
		ROW(max_active_is_never_exceeded_and_can_be_changed),
		ROW(a_limit_of_a_bound_queue_is_of_each_cpu),
		ROW(a_legacy_queue_runs_one_work_on_each_cpu),
		ROW(a_bound_work_may_wait_for_one_of_another_cpu),
		ROW(eight_works_that_wait_for_one_another_go_on),
		ROW(a_flush_waits_for_what_was_queued_before_and_not_for_what_comes_after),
		ROW(a_drain_takes_works_from_the_queue_itself_alone),
		ROW(a_frozen_queue_begins_nothing_and_loses_nothing),
		ROW(attributes_change_under_load),
		ROW(attributes_leave_the_limit),
		ROW(delays_are_rounded_up_to_jiffies),
		ROW(memory_is_had_and_given_back),
		ROW(what_is_published_is_seen_by_a_work),
		ROW(a_destroyed_queue_has_run_all),
		ROW(operations_at_once_lose_and_duplicate_nothing),
#ifndef WITHOUT_FORKS
		ROW(a_forked_child_gets_errors_and_can_begin_anew),
#endif
	};
	return run_rows(rows, sizeof(rows) / sizeof(*rows), argc, argv);
}
