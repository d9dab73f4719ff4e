/* Two threads that have the same memory one after the other, in pieces shorter than a line. Nothing that is recorded tells
 * that the second waits for the first, so a replay runs them side by side. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 300, NODES = 200 };

struct node {
	struct node *next;
	volatile long count;
	long rest[2];
};

static atomic_int ended;

static void *work(void *argument)
{
	struct node *first = 0;
	for (int number = 0; number < NODES; number++) {
		struct node *node = malloc(sizeof *node);
		node->next = first;
		node->count = 0;
		first = node;
	}
	for (int round = 0; round < ROUNDS; round++)
		for (struct node *node = first; node; node = node->next)
			node->count++;
	while (first) {
		struct node *node = first;
		first = node->next;
		free(node);
	}
	atomic_fetch_add(&ended, 1);
	return argument;
}

int main(void)
{
	pthread_t threads[2];
	for (int number = 0; number < 2; number++) {
		pthread_create(&threads[number], 0, work, 0);
		while (atomic_load(&ended) <= number)
			usleep(1000);
		/* Wait until its memory is free for the next thread. */
		usleep(100000);
	}
	for (int number = 0; number < 2; number++)
		pthread_join(threads[number], 0);
	return 0;
}
