/* Four threads that want one lock all the time. */
#include <pthread.h>

static struct {
	pthread_mutex_t lock;
	long balance;
} account = {PTHREAD_MUTEX_INITIALIZER, 0};

static void *work(void *argument)
{
	for (int round = 0; round < 20000; round++) {
		pthread_mutex_lock(&account.lock);
		account.balance += round;
		pthread_mutex_unlock(&account.lock);
	}
	return argument;
}

int main(void)
{
	pthread_t threads[4];
	for (int number = 0; number < 4; number++)
		pthread_create(&threads[number], 0, work, 0);
	for (int number = 0; number < 4; number++)
		pthread_join(threads[number], 0);
	return 0;
}
