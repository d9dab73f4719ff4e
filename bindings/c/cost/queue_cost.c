/*
 * Queues works, each twice: what callgrind counts inside of cs_queue_work. cost.sh beside it runs it.
 *
 * Usage: queue_cost WORKS
 */
#include <stdio.h>
#include <stdlib.h>

#include <coreshard.h>

static void nothing(struct cs_work *work) { (void)work; }

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, at;
	struct cs_workqueue *queue = cs_alloc_workqueue("cost", 0, 0);
	struct cs_work *works = calloc(count, sizeof(*works));
	unsigned long queued = 0;
	int turn;

	if (!queue || !works) {
		fprintf(stderr, "queue_cost: %s\n", cs_last_error());
		return 1;
	}
	for (at = 0; at < count; at++)
		cs_work_init(&works[at], nothing);
	for (turn = 0; turn < 2; turn++) {
		for (at = 0; at < count; at++)
			queued += cs_queue_work(queue, &works[at]) == 1;
		cs_flush_workqueue(queue);
	}
	cs_destroy_workqueue(queue);
	printf("%lu\n", queued);
	return queued == 2 * count ? 0 : 1;
}
