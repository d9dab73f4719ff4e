/*
 * Queues works, all of them in each round, and flushes: nanoseconds a work. For callgrind, which counts what is inside of
 * cs_queue_work. cost.sh beside it runs it.
 *
 * Usage: queue_cost WORKS ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <coreshard.h>

static void nothing(struct cs_work *work) { (void)work; }

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, at;
	struct cs_workqueue *queue = cs_alloc_workqueue("cost", 0, 0);
	struct cs_work *works = calloc(count, sizeof(*works));
	size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 2, turn;
	struct timespec began, ended;
	unsigned long queued = 0;

	if (!queue || !works) {
		fprintf(stderr, "queue_cost: %s\n", cs_last_error());
		return 1;
	}
	for (at = 0; at < count; at++)
		cs_work_init(&works[at], nothing);
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (turn = 0; turn < rounds; turn++) {
		for (at = 0; at < count; at++)
			queued += cs_queue_work(queue, &works[at]) == 1;
		cs_flush_workqueue(queue);
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	cs_destroy_workqueue(queue);
	printf("%.1f\n", ((double)(ended.tv_sec - began.tv_sec) * 1e9 + (double)(ended.tv_nsec - began.tv_nsec)) /
				(double)(count * rounds));
	return queued == rounds * count ? 0 : 1;
}
