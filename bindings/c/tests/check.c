/* The checking mode finds misuse and names it: each row is a process that it must end, or a handler that receives it. */
#define _GNU_SOURCE
#include "harness.h"

#include <coreshard.h>
#include <sys/wait.h>

struct job {
	long before;
	struct cs_work work;
};

static void nothing(struct cs_work *work) { (void)work; }

static struct cs_workqueue *doomed;
static void destroy_inside(struct cs_work *work)
{
	(void)work;
	cs_destroy_workqueue(doomed);
}

/* Runs `misuse` in a child process, which must abort, and searches its output. */
static void expect(void (*misuse)(void), const char *first, const char *second)
{
	char said[4096] = "";
	size_t length = 0;
	ssize_t got;
	int pipes[2], status;
	pid_t child;

	CHECK(pipe(pipes) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		dup2(pipes[1], STDERR_FILENO);
		close(pipes[0]);
		misuse();
		_exit(0);
	}
	close(pipes[1]);
	while (length < sizeof(said) - 1 && (got = read(pipes[0], said + length, sizeof(said) - 1 - length)) > 0)
		length += (size_t)got;
	close(pipes[0]);
	CHECK(waitpid(child, &status, 0) == child);
	if (!WIFSIGNALED(status) || !strstr(said, first) || !strstr(said, second)) {
		fprintf(stderr, "status %#x, said: %s\n", (unsigned int)status, said);
		CHECK(!"it is found and named");
	}
}

static struct cs_workqueue *frozen(void)
{
	struct cs_workqueue *queue = cs_alloc_workqueue("misused", 0, 0);

	CHECK(queue && cs_freeze_workqueue(queue) == 0);
	return queue;
}

static void free_a_queued_work(void)
{
	struct cs_workqueue *queue = frozen();
	struct job *job = malloc(sizeof(*job));

	cs_work_init(&job->work, nothing);
	CHECK(cs_queue_work(queue, &job->work) == 1);
	if (!getenv("LD_PRELOAD"))
		cs_check_free(job, sizeof(*job)); /* what the preloaded library does */
	free(job);
}

static void set_up_a_queued_work(void)
{
	struct cs_workqueue *queue = frozen();
	static struct cs_work work = CS_WORK_INITIALIZER(nothing);

	CHECK(cs_queue_work(queue, &work) == 1);
	cs_work_init(&work, nothing);
}

static void destroy_a_queue_inside_its_own_work(void)
{
	static struct cs_work work = CS_WORK_INITIALIZER(destroy_inside);

	doomed = cs_alloc_workqueue("misused", 0, 0);
	CHECK(cs_queue_work(doomed, &work) == 1);
	cs_flush_work(&work);
}

static void use_a_queue_that_was_destroyed(void)
{
	struct cs_workqueue *queue = cs_alloc_workqueue("misused", 0, 0);
	static struct cs_work work = CS_WORK_INITIALIZER(nothing);

	CHECK(cs_destroy_workqueue(queue) == 0);
	cs_queue_work(queue, &work);
}

static _Atomic int destroyers;

static void wait_for_both(struct cs_work *work)
{
	(void)work;
	while (atomic_load(&destroyers) < 2)
		usleep(1000);
	usleep(50000);
}

static void *destroy_beside_another(void *queue)
{
	atomic_fetch_add(&destroyers, 1);
	cs_destroy_workqueue(queue);
	return NULL;
}

static void destroy_a_queue_by_two_threads(void)
{
	struct cs_workqueue *queue = cs_alloc_workqueue("misused", 0, 0);
	static struct cs_work work = CS_WORK_INITIALIZER(wait_for_both);
	pthread_t other;

	CHECK(cs_queue_work(queue, &work) == 1);
	CHECK(pthread_create(&other, NULL, destroy_beside_another, queue) == 0);
	destroy_beside_another(queue);
	CHECK(pthread_join(other, NULL) == 0);
}

static void destroy_a_queue_with_a_delayed_work(void)
{
	struct cs_workqueue *queue = cs_alloc_workqueue("misused", 0, 0);
	static struct cs_work work = CS_WORK_INITIALIZER(nothing);

	CHECK(cs_queue_delayed_work(queue, &work, 3600000000000u) == 1);
	cs_destroy_workqueue(queue);
}

static void what_is_no_queue(void)
{
	static long not_a_queue[64];
	static struct cs_work work = CS_WORK_INITIALIZER(nothing);

	cs_queue_work((struct cs_workqueue *)(void *)not_a_queue, &work);
}

static void a_queued_work_that_is_freed_is_found(void)
{
	expect(free_a_queued_work, "function \"nothing\") is freed", "queued on workqueue \"misused\"");
}

static void a_queued_work_that_is_set_up_anew_is_found(void)
{
	expect(set_up_a_queued_work, "function \"nothing\") is set up anew", "workqueue \"misused\"");
}

static void a_queue_that_is_destroyed_inside_its_own_work_is_found(void)
{
	expect(destroy_a_queue_inside_its_own_work, "workqueue \"misused\" is destroyed inside", "its own works");
}

static void a_queue_that_is_used_after_its_end_is_found(void)
{
	expect(use_a_queue_that_was_destroyed, "workqueue \"misused\" is used after it was destroyed", "");
	expect(what_is_no_queue, "there is no workqueue at", "");
}

static void a_queue_that_is_destroyed_by_two_threads_is_found(void)
{
	/* Or used after its end, where one of them is late. */
	expect(destroy_a_queue_by_two_threads, "workqueue \"misused\" is", "destroyed");
}

static void a_delayed_work_that_is_left_is_found(void)
{
	expect(destroy_a_queue_with_a_delayed_work, "workqueue \"misused\" is destroyed while", "is delayed on it");
}

static _Atomic int heard;
static void hear(const char *found)
{
	CHECK(strstr(found, "misused"));
	atomic_fetch_add(&heard, 1);
}

static void a_handler_hears_of_it_instead(void)
{
	CHECK(cs_set_check_handler(hear) == NULL);
	destroy_a_queue_inside_its_own_work();
	CHECK(heard == 1);
	CHECK(cs_set_check_handler(NULL) == hear);
}

int main(int argc, char **argv)
{
	static const struct row rows[] = {
		ROW(a_queued_work_that_is_freed_is_found),
		ROW(a_queued_work_that_is_set_up_anew_is_found),
		ROW(a_queue_that_is_destroyed_inside_its_own_work_is_found),
		ROW(a_queue_that_is_used_after_its_end_is_found),
		ROW(a_queue_that_is_destroyed_by_two_threads_is_found),
		ROW(a_delayed_work_that_is_left_is_found),
		ROW(a_handler_hears_of_it_instead),
	};
	setenv("CORESHARD_CHECK", "1", 1);
	return run_rows(rows, sizeof(rows) / sizeof(*rows), argc, argv);
}
