/*
 * The promises of docs/KERNEL-OPERATIONS.md, row by row, by the kernel's names. Each function is a row, or several that are
 * shown together; main has them in the page's order.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/wait.h>

/* What is told is counted. */
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
	CHECK(system_unbound_wq == system_long_wq);
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
		ROW(a_work_may_lie_on_the_stack),
		ROW(a_pending_work_is_not_queued_again),
		ROW(what_was_written_before_a_refused_queueing_is_seen),
		ROW(a_work_never_runs_on_two_workers_at_once),
		ROW(a_work_may_queue_itself),
		ROW(a_work_may_free_itself),
		ROW(a_bound_work_runs_on_its_cpu),
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
		ROW(eight_works_that_wait_for_one_another_go_on),
		ROW(a_flush_waits_for_what_was_queued_before_and_not_for_what_comes_after),
		ROW(a_drain_takes_works_from_the_queue_itself_alone),
		ROW(a_frozen_queue_begins_nothing_and_loses_nothing),
		ROW(attributes_change_under_load),
		ROW(a_destroyed_queue_has_run_all),
		ROW(operations_at_once_lose_and_duplicate_nothing),
#ifndef WITHOUT_FORKS
		ROW(a_forked_child_gets_errors_and_can_begin_anew),
#endif
	};
	return run_rows(rows, sizeof(rows) / sizeof(*rows), argc, argv);
}
