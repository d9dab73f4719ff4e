/*
 * erofs-utils' interface of a work queue, on Coreshard: takes the place of lib/workqueue.c.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "erofs/print.h"
#include "erofs/workqueue.h"

static void run(struct cs_work *embedded)
{
	struct erofs_work *work = cs_container_of(embedded, struct erofs_work, work);
	struct erofs_workqueue *wq = work->wq;
	void *state;

	/* No more works run at once than there are states, which max_active sees to. */
	pthread_mutex_lock(&wq->lock);
	state = wq->free_states[--wq->free_count];
	if (wq->jobs-- == wq->max_jobs)
		pthread_cond_broadcast(&wq->room);
	pthread_mutex_unlock(&wq->lock);
	/* The function may free the work. */
	work->fn(work, state);
	pthread_mutex_lock(&wq->lock);
	wq->free_states[wq->free_count++] = state;
	pthread_mutex_unlock(&wq->lock);
}

int erofs_alloc_workqueue(struct erofs_workqueue *wq, unsigned int workers, unsigned int max_jobs,
			  erofs_wq_func_t on_start, erofs_wq_func_t on_exit)
{
	if (!wq || !workers || !max_jobs)
		return -EINVAL;
	wq->free_states = calloc(workers, sizeof(*wq->free_states));
	if (!wq->free_states)
		return -ENOMEM;
	wq->queue = cs_alloc_workqueue("erofs", 0, (int)workers);
	if (!wq->queue) {
		int failed = -errno;

		erofs_err("no workqueue: %s", cs_last_error());
		free(wq->free_states);
		return failed;
	}
	pthread_mutex_init(&wq->lock, NULL);
	pthread_cond_init(&wq->room, NULL);
	wq->max_jobs = max_jobs;
	wq->jobs = 0;
	wq->on_exit = on_exit;
	wq->places = workers;
	for (wq->free_count = 0; wq->free_count < workers; wq->free_count++)
		wq->free_states[wq->free_count] = on_start ? on_start(wq, NULL) : NULL;
	return 0;
}

int erofs_queue_work(struct erofs_workqueue *wq, struct erofs_work *work)
{
	int queued;

	if (!wq || !work)
		return -EINVAL;
	pthread_mutex_lock(&wq->lock);
	while (wq->jobs == wq->max_jobs)
		pthread_cond_wait(&wq->room, &wq->lock);
	wq->jobs++;
	pthread_mutex_unlock(&wq->lock);
	work->wq = wq;
	cs_work_init(&work->work, run);
	queued = cs_queue_work(wq->queue, &work->work);
	return queued < 0 ? queued : 0;
}

int erofs_destroy_workqueue(struct erofs_workqueue *wq)
{
	int destroyed;

	if (!wq)
		return -EINVAL;
	destroyed = cs_destroy_workqueue(wq->queue);
	if (destroyed)
		return destroyed;
	while (wq->free_count)
		if (wq->on_exit)
			wq->on_exit(wq, wq->free_states[--wq->free_count]);
		else
			wq->free_count--;
	free(wq->free_states);
	pthread_mutex_destroy(&wq->lock);
	pthread_cond_destroy(&wq->room);
	return 0;
}
