/* Programs whose cause and remedy are known; CASE says which. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { ROUNDS = 30000 };

#if CASE == 1 /* two globals side by side, each of one thread */
static volatile long sent, received;

static void *one(void *argument)
{
	for (int round = 0; round < ROUNDS; round++)
		sent++;
	return argument;
}

static void *other(void *argument)
{
	for (int round = 0; round < ROUNDS; round++)
		received++;
	return argument;
}

#elif CASE == 2 /* buckets, each with a lock that no two threads want at once */
struct bucket {
	pthread_mutex_t lock;
	long count;
};

static struct bucket buckets[16];

static void add(int first)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct bucket *bucket = &buckets[first + round % 8 * 2];
		pthread_mutex_lock(&bucket->lock);
		bucket->count++;
		pthread_mutex_unlock(&bucket->lock);
	}
}

static void *one(void *argument)
{
	add(0);
	return argument;
}

static void *other(void *argument)
{
	add(1);
	return argument;
}

#elif CASE == 3 /* a ring of one producer and one consumer */
static struct {
	atomic_long head, tail;
	long slots[64];
} ring;

static void *one(void *argument)
{
	for (long item = 0; item < ROUNDS; item++) {
		long head = atomic_load_explicit(&ring.head, memory_order_relaxed);
		while (head - atomic_load_explicit(&ring.tail, memory_order_acquire) == 64)
			;
		ring.slots[head % 64] = item;
		atomic_store_explicit(&ring.head, head + 1, memory_order_release);
	}
	return argument;
}

static void *other(void *argument)
{
	for (long item = 0; item < ROUNDS; item++) {
		long tail = atomic_load_explicit(&ring.tail, memory_order_relaxed);
		while (atomic_load_explicit(&ring.head, memory_order_acquire) == tail)
			;
		*(long *)argument += ring.slots[tail % 64];
		atomic_store_explicit(&ring.tail, tail + 1, memory_order_release);
	}
	return argument;
}

#else /* a table that is written before the threads start */
static long table[4096];
static volatile long sums[2][16];

static void sum(int number)
{
	for (int round = 0; round < 8; round++)
		for (int at = 0; at < 4096; at++)
			sums[number][8] += table[at];
}

static void *one(void *argument)
{
	sum(0);
	return argument;
}

static void *other(void *argument)
{
	sum(1);
	return argument;
}
#endif

int main(void)
{
	pthread_t threads[2];
	static long result[16];
#if CASE == 2
	for (int number = 0; number < 16; number++)
		pthread_mutex_init(&buckets[number].lock, 0);
#elif CASE == 4
	for (int at = 0; at < 4096; at++)
		table[at] = at;
#endif
	pthread_create(&threads[0], 0, one, result);
	pthread_create(&threads[1], 0, other, result);
	for (int number = 0; number < 2; number++)
		pthread_join(threads[number], 0);
	return 0;
}
