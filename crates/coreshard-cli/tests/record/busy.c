/* Two threads that write memory all over the place for a while. */
#include <pthread.h>
#include <time.h>

static long words[2][1 << 17];
static volatile long sides[2];

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static void *work(void *argument)
{
	long number = (long)argument;
	unsigned long seed = number + 1;
	double end = now() + 3;
	while (now() < end)
		for (int round = 0; round < 10000; round++) {
			seed = seed * 6364136223846793005ul + 1442695040888963407ul;
			words[number][seed >> 47] += seed;
			sides[number]++;
		}
	return 0;
}

int main(void)
{
	pthread_t threads[2];
	for (long number = 0; number < 2; number++)
		pthread_create(&threads[number], 0, work, (void *)number);
	for (int number = 0; number < 2; number++)
		pthread_join(threads[number], 0);
	return 0;
}
