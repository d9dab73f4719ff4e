/* Two threads that have the same memory one after the other, and each write a different word. No recorded event
 * shows that the second thread waits for the first, so a replay runs them at the same time. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 20000, BYTES = 1024 };

static atomic_uintptr_t had[2];

static void *work(void *argument)
{
	long number = (long)argument;
	volatile long *words = malloc(BYTES);
	for (int round = 0; round < ROUNDS; round++)
		words[number]++;
	atomic_store(&had[number], (uintptr_t)words);
	free((void *)words);
	return 0;
}

int main(void)
{
	pthread_t threads[2];
	for (long number = 0; number < 2; number++) {
		pthread_create(&threads[number], 0, work, (void *)number);
		while (!atomic_load(&had[number]))
			usleep(1000);
		/* Wait until its memory is free for the next thread. */
		usleep(100000);
	}
	for (int number = 0; number < 2; number++)
		pthread_join(threads[number], 0);
	return had[0] == had[1] ? 7 : 8;
}
