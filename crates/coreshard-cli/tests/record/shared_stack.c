/* Two threads that each add to a word of a struct on the main thread's stack. */
#include <pthread.h>

struct results {
	long found, missed;
};

static void *find(void *argument)
{
	struct results *results = argument;
	for (int round = 0; round < 30000; round++)
		*(volatile long *)&results->found += 1;
	return 0;
}

static void *miss(void *argument)
{
	struct results *results = argument;
	for (int round = 0; round < 30000; round++)
		*(volatile long *)&results->missed += 1;
	return 0;
}

int main(void)
{
	_Alignas(64) struct results results = {0, 0};
	pthread_t threads[2];
	pthread_create(&threads[0], 0, find, &results);
	pthread_create(&threads[1], 0, miss, &results);
	for (int number = 0; number < 2; number++)
		pthread_join(threads[number], 0);
	return 0;
}
