/*
 * erofs-utils' interface of a work queue, on Coreshard: takes the place of include/erofs/workqueue.h.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef __EROFS_WORKQUEUE_H
#define __EROFS_WORKQUEUE_H

#include "internal.h"

#include <coreshard.h>

struct erofs_workqueue;

typedef void *(*erofs_wq_func_t)(struct erofs_workqueue *, void *);

struct erofs_work {
	void (*fn)(struct erofs_work *work, void *state);
	struct erofs_workqueue *wq;
	struct cs_work work;
};

/* A worker's state there is a place's here: a work has one while it runs. */
struct erofs_workqueue {
	struct cs_workqueue *queue;
	pthread_mutex_t lock;
	pthread_cond_t room;
	void **free_states;
	unsigned int places, free_count, max_jobs, jobs;
	erofs_wq_func_t on_exit;
};

int erofs_alloc_workqueue(struct erofs_workqueue *wq, unsigned int workers, unsigned int max_jobs,
			  erofs_wq_func_t on_start, erofs_wq_func_t on_exit);
int erofs_queue_work(struct erofs_workqueue *wq, struct erofs_work *work);
int erofs_destroy_workqueue(struct erofs_workqueue *wq);

#endif
