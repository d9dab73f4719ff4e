/*
 * libfrog's work queue, on Coreshard: replaces libfrog/workqueue.c. The header does not change: users do not access the private members
 * of `struct workqueue`, and its member `threads` points to the data needed here.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <coreshard.h>

#include "workqueue.h"

struct item {
	struct cs_work work;
	struct workqueue *wq;
	workqueue_func_t *function;
	void *arg;
	uint32_t index;
};

static struct cs_workqueue *queue_of(struct workqueue *wq)
{
	return (struct cs_workqueue *)(void *)wq->threads;
}

/* Makes room for one more if the queue is bounded. */
static void run(struct cs_work *work)
{
	struct item *item = cs_container_of(work, struct item, work);
	struct workqueue *wq = item->wq;

	if (wq->max_queued) {
		pthread_mutex_lock(&wq->lock);
		wq->item_count--;
		pthread_cond_signal(&wq->queue_full);
		pthread_mutex_unlock(&wq->lock);
	}
	item->function(wq, item->index, item->arg);
	free(item);
}

int workqueue_create_bound(struct workqueue *wq, void *wq_ctx, unsigned int nr_workers, unsigned int max_queue)
{
	*wq = (struct workqueue){ .wq_ctx = wq_ctx, .thread_count = nr_workers, .max_queued = (int)max_queue };
	if (!nr_workers)
		return 0;
	pthread_mutex_init(&wq->lock, NULL);
	pthread_cond_init(&wq->queue_full, NULL);
	wq->threads = (pthread_t *)(void *)cs_alloc_workqueue("libfrog", 0, (int)nr_workers);
	return wq->threads ? 0 : -errno;
}

int workqueue_create(struct workqueue *wq, void *wq_ctx, unsigned int nr_workers)
{
	return workqueue_create_bound(wq, wq_ctx, nr_workers, 0);
}

int workqueue_add(struct workqueue *wq, workqueue_func_t func, uint32_t index, void *arg)
{
	struct item *item;
	int queued;

	/* Without workers, the caller is the worker. */
	if (!wq->thread_count) {
		func(wq, index, arg);
		return 0;
	}
	item = malloc(sizeof(*item));
	if (!item)
		return -errno;
	item->wq = wq;
	item->function = func;
	item->arg = arg;
	item->index = index;
	if (wq->max_queued) {
		cs_blocking_begin();
		pthread_mutex_lock(&wq->lock);
		while (wq->item_count >= (unsigned int)wq->max_queued)
			pthread_cond_wait(&wq->queue_full, &wq->lock);
		wq->item_count++;
		pthread_mutex_unlock(&wq->lock);
		cs_blocking_end();
	}
	cs_work_init(&item->work, run);
	queued = cs_queue_work(queue_of(wq), &item->work);
	if (queued < 0) {
		free(item);
		return queued;
	}
	return 0;
}

int workqueue_terminate(struct workqueue *wq)
{
	if (wq->threads && !wq->terminated) {
		int drained = cs_drain_workqueue(queue_of(wq));

		if (drained)
			return drained;
	}
	wq->terminated = true;
	return 0;
}

void workqueue_destroy(struct workqueue *wq)
{
	if (wq->threads) {
		cs_destroy_workqueue(queue_of(wq));
		pthread_mutex_destroy(&wq->lock);
		pthread_cond_destroy(&wq->queue_full);
	}
	wq->threads = NULL;
}
