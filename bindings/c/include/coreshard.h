/*
 * Coreshard: work queues whose pools of workers follow the machine's caches.
 *
 * Made by cbindgen; bindings/c/README.md tells how it is used.
 *
 * Where nothing else is said, a function returns 0, or 1 where it says so, and a negative errno where it fails:
 * cs_last_error() has a sentence then. A function that returns a pointer returns NULL, and sets errno. Any thread may call
 * any function. In a process that was forked, queues of the parent fail with ECHILD; new ones can be made.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#ifndef CORESHARD_H
#define CORESHARD_H

#include <stddef.h>
#include <stdint.h>

/* C has a structure and a function of one name, as stat(2) does. */
#if defined(__cplusplus) && defined(__GNUC__)
#define CORESHARD_PUSHED
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

#define CORESHARD_VERSION_MAJOR 0
#define CORESHARD_VERSION_MINOR 1

struct cs_work;

/* A work set up where it is defined: static struct cs_work work = CS_WORK_INITIALIZER(function); */
#define CS_WORK_INITIALIZER(function) { (function), #function, { 0, 0, 0, 0, 0, 0 } }

/* Sets a work up, in whatever memory; not one that is pending. */
#define cs_work_init(work, function) cs_work_init_named((work), (function), #function)

/* What calls of a function have in common: static struct cs_call call = CS_CALL_INITIALIZER(function); */
#define CS_CALL_INITIALIZER(function) { (function), #function, NULL }

/* The structure of type `type` whose member `member` is at `pointer`. */
#define cs_container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

#define CS_WORKQUEUE_ATTRS_INIT { sizeof(struct cs_workqueue_attrs), 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0 }
#define CS_CONFIG_INIT { sizeof(struct cs_config), 0, 0, 0, 0, 0, NULL, NULL }


/*
 Open it for writing, too.
 */
#define CS_BLOCK_WRITE (1 << 0)

/*
 Past the page cache (O_DIRECT).
 */
#define CS_BLOCK_DIRECT (1 << 1)

/*
 One item at a time, in order, across all CPUs.
 */
#define CS_WQ_ORDERED (1 << 0)

/*
 A worker is in reserve from the start, for when none can be started; the queue shares its pools with no other.
 */
#define CS_WQ_MEM_RECLAIM (1 << 1)

/*
 Its workers have the nice value -20. An error (EAGAIN) where that is not allowed, unless the next flag is there, too.
 */
#define CS_WQ_HIGHPRI (1 << 2)

/*
 With `CS_WQ_HIGHPRI`: where that is not allowed, the queue is as any other.
 */
#define CS_WQ_HIGHPRI_IF_ALLOWED (1 << 3)

/*
 A work runs on the CPU that it was queued on: the scope `cpu`, strictly. `max_active` is of each CPU.
 */
#define CS_WQ_PERCPU (1 << 4)

/*
 As `max_active` of `cs_change_workqueue`: the limit stays as it is.
 */
#define CS_MAX_ACTIVE_KEPT -1

/*
 Which CPUs share a pool of workers.
 */
enum cs_scope {
  /*
   `CS_SCOPE_CACHE_SHARD`.
   */
  CS_SCOPE_DEFAULT = 0,
  CS_SCOPE_CPU = 1,
  CS_SCOPE_SMT = 2,
  CS_SCOPE_CACHE_SHARD = 3,
  CS_SCOPE_CACHE = 4,
  CS_SCOPE_NUMA = 5,
  CS_SCOPE_SYSTEM = 6,
};

/*
 Queues that are there for the whole process, and that nobody destroys.
 */
enum cs_system_workqueue_kind {
  /*
   In pods of the default scope.
   */
  CS_SYSTEM_WORKQUEUE_KIND_DEFAULT = 0,
  /*
   As it, with `CS_WQ_HIGHPRI` where that is allowed.
   */
  CS_SYSTEM_WORKQUEUE_KIND_HIGHPRI = 1,
  /*
   On the CPU that a work is queued on: `CS_WQ_PERCPU`.
   */
  CS_SYSTEM_WORKQUEUE_KIND_PERCPU = 2,
  /*
   In pods of the scope `numa`: few workers, awake together.
   */
  CS_SYSTEM_WORKQUEUE_KIND_POWER_EFFICIENT = 3,
  /*
   As `Percpu`, with `CS_WQ_HIGHPRI` where that is allowed.
   */
  CS_SYSTEM_WORKQUEUE_KIND_PERCPU_HIGHPRI = 4,
};

/*
 What kind of trouble.
 */
enum cs_trouble {
  /*
   A work used a CPU for long while others waited.
   */
  CS_TROUBLE_CPU_HOG = 1,
  /*
   A pool has works that wait, and begins none.
   */
  CS_TROUBLE_STALL = 2,
  /*
   A pool needs one more worker and cannot have it.
   */
  CS_TROUBLE_NO_WORKER = 3,
  /*
   A pool's books do not agree with one another: a bug of Coreshard's.
   */
  CS_TROUBLE_BUG = 4,
  /*
   Something that this version's header does not name.
   */
  CS_TROUBLE_OTHER = 5,
};

/*
 Bytes that a request reads or writes: with whoever made it, but from a request's submission to its callback. It has no bytes while a
 request has them.
 */
struct cs_block_buffer;

/*
 A file, a block device, or memory that is as one. Made by `cs_block_open` or `cs_block_memory`.
 */
struct cs_block_device;

/*
 An adapter: the tags that the devices of its targets share, and the threads that may have queues to them. Made by
 `cs_block_host`.
 */
struct cs_block_host;

/*
 One thread's queue to a device: all calls with it are that thread's. A callback may make any of them, closing included.
 */
struct cs_block_queue;

/*
 Devices of a host that come and go together, such as those of an enclosure. Made by `cs_block_target`.
 */
struct cs_block_target;

/*
 A machine's CPUs, divided into pods: those that share a pool of workers. Made by `cs_pods`, freed by `cs_pods_free`.
 */
struct cs_pods;

/*
 Runs tasks of fixed priorities. Made by `cs_rt_executor`, ended by `cs_rt_executor_free`.
 */
struct cs_rt_executor;

/*
 A mutex with priority inheritance, unlocked by the thread that has locked it.
 */
struct cs_rt_mutex;

/*
 A periodic task; ended by `cs_rt_stop`.
 */
struct cs_rt_periodic;

/*
 A task that was spawned; ended by `cs_rt_join`.
 */
struct cs_rt_task;

/*
 A machine's CPUs, caches and nodes. Made by `cs_topology_host` or `cs_topology_parse`, freed by `cs_topology_free`.
 */
struct cs_topology;

/*
 A queue of works. Made by `cs_alloc_workqueue`, ended by `cs_destroy_workqueue`.
 */
struct cs_workqueue;

/*
 Told, on the queue's thread, inside of `cs_block_poll` or `cs_block_wait`, that a request is over: its buffer, which is the
 caller's again (null for a flush); the bytes that were transferred, or a negative errno; and what was given beside it.
 */
typedef void (*cs_block_done)(struct cs_block_buffer *buffer, int64_t result, void *argument);

/*
 What is called with the address of two words, which are its own while the call goes on.
 */
typedef void (*cs_call_function)(uint64_t *words);

/*
 What calls of one function have in common: one for each function, there for good. Begin with `CS_CALL_INITIALIZER`.
 */
struct cs_call {
  /*
   What is called.
   */
  cs_call_function function;
  /*
   The function's name, for reports; may be null.
   */
  const char *name;
  /*
   The library's.
   */
  void *reserved;
};

/*
 Told what was found, as a sentence; if it comes back, the call goes on.
 */
typedef void (*cs_check_handler)(const char *found);

/*
 Called with what was given beside it.
 */
typedef void (*cs_function)(void *argument);

/*
 Called with a part of a range, and with what was given beside it.
 */
typedef void (*cs_range_function)(size_t begin, size_t end, void *argument);

/*
 Told of trouble: what kind (`enum cs_trouble`), a sentence that is there during the call, and what was given beside it.
 It is called on a thread of the library's, which is to have it back soon.
 */
typedef void (*cs_trouble_function)(int kind, const char *sentence, void *argument);

/*
 What the process's runtime is to be; zeros are the defaults. Begin with `CS_CONFIG_INIT`.
 */
struct cs_config {
  /*
   `sizeof(struct cs_config)`.
   */
  size_t size;
  /*
   How many workers run at once in the pools of one set of attributes; 0 for one a CPU.
   */
  unsigned int workers;
  /*
   How many workers there are at most, blocked ones too; 0 for the default.
   */
  unsigned int max_workers;
  /*
   CPU time after which a work is a hog, in nanoseconds; 0 for the default.
   */
  uint64_t cpu_intensive_ns;
  /*
   After so long without a begun work a pool that has some is stalled, in nanoseconds; 0 for the default.
   */
  uint64_t stall_after_ns;
  /*
   How long a worker sleeps before it ends, in nanoseconds; 0 for the default.
   */
  uint64_t idle_timeout_ns;
  /*
   Told of trouble; may be null.
   */
  cs_trouble_function on_trouble;
  /*
   Given to it.
   */
  void *trouble_argument;
};

/*
 What a queue is to be; zeros are the defaults. Begin with `CS_WORKQUEUE_ATTRS_INIT`.
 */
struct cs_workqueue_attrs {
  /*
   `sizeof(struct cs_workqueue_attrs)`, so that later versions may have more members.
   */
  size_t size;
  /*
   `CS_WQ_…`, or-ed.
   */
  unsigned int flags;
  /*
   An `enum cs_scope`.
   */
  int scope;
  /*
   How many cores a cache shard is to have; 0 for the default (8).
   */
  unsigned int shard_size;
  /*
   Workers stay in their pod; 0 for no.
   */
  int strict;
  /*
   So many works run at once, in the whole queue, or with `CS_WQ_PERCPU` on each CPU; 0 for no limit.
   */
  int max_active;
  /*
   As `max_active`, shared out among the nodes; 0 for no limit.
   */
  int max_active_by_node;
  /*
   1 if `nice` counts.
   */
  int has_nice;
  /*
   The workers' nice value, -20 to 19.
   */
  int nice;
  /*
   The CPUs that it may use, as "0-3,8"; null for all.
   */
  const char *cpus;
  /*
   How large its workers' stacks are, at least 64 KiB; 0 for what the C library gives to threads, and 2 MiB at least.
   */
  size_t stack_bytes;
};

/*
 What periodic tasks have done.
 */
struct cs_rt_periodic_stats {
  uint64_t activations;
  /*
   Of these, the ones that were done after their deadline.
   */
  uint64_t late;
  /*
   Activations that were left out.
   */
  uint64_t skipped;
};

/*
 Counts of a queue, and of its pools together.
 */
struct cs_workqueue_stats {
  /*
   Works that were accepted.
   */
  uint64_t queued;
  /*
   Those that are over. Workers tell of them in batches, so the newest may be missing.
   */
  uint64_t run;
  /*
   Of a queue with a limit: works that its pools have.
   */
  uint64_t active;
  /*
   Of a queue with a limit, or frozen: works that wait for their turn.
   */
  uint64_t waiting;
  /*
   Nothing begins until the queue is thawed.
   */
  uint64_t is_frozen;
  /*
   The pools.
   */
  uint64_t pools;
  /*
   Their workers, which other queues may use, too; those that sleep for want of work, and those that wait inside one.
   */
  uint64_t workers;
  uint64_t idle_workers;
  uint64_t blocked_workers;
  /*
   Works that used a CPU for long while others waited.
   */
  uint64_t cpu_hogs;
  /*
   CPU time of the pools' workers, in nanoseconds.
   */
  uint64_t cpu_time_ns;
};

/*
 A work: a member of a structure of the program's, set up by `cs_work_init` or `CS_WORK_INITIALIZER`, and queued any
 number of times, without an allocation. It needs no destructor. It may be freed, or go out of scope, when it is
 neither pending nor running, and while it runs by its own function; and is not moved, but then.
 */
struct cs_work {
  /*
   What is called, with the work. It may queue the work again, and free it.
   */
  void (*function)(struct cs_work *work);
  /*
   The function's name, for reports; may be null.
   */
  const char *name;
  /*
   The library's.
   */
  uint64_t reserved[6];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens a regular file or a block device (`CS_BLOCK_…` or-ed), for so many threads, each with a queue: the one device of a host
 of its own. Null, and errno, where it is not there, or cannot be opened so.
 */
struct cs_block_device *cs_block_open(const char *path,
                                      unsigned int flags,
                                      unsigned int threads);

/*
 A device of so many bytes of memory, zeros at first, for so many threads: the one device of a host of its own.
 */
struct cs_block_device *cs_block_memory(uint64_t bytes,
                                        unsigned int threads);

/*
 Lets go of a device; its queues go on until they are closed. Null is fine.
 */
void cs_block_close(struct cs_block_device *device);

/*
 The calling thread's queue to a device; `thread` is its number, below the threads that it was opened for, each with one
 queue. Null, and errno, where that thread has one, or the process was forked since.
 */
struct cs_block_queue *cs_block_queue(struct cs_block_device *device,
                                      unsigned int thread);

/*
 Ends a queue, on its thread: what is outstanding is cancelled or finished, and its callbacks called. Null is fine.
 */
void cs_block_queue_close(struct cs_block_queue *queue);

/*
 Zeroed bytes, aligned to a page. Null, and errno, for none.
 */
struct cs_block_buffer *cs_block_buffer_alloc(size_t bytes);

/*
 Frees a buffer that no request has. Null is fine. One that a request has is never freed: its callback is given it.
 */
void cs_block_buffer_free(struct cs_block_buffer *buffer);

/*
 Where a buffer's bytes are. Null while a request has them.
 */
void *cs_block_buffer_data(struct cs_block_buffer *buffer);

/*
 How many bytes it has; 0 while a request has them.
 */
size_t cs_block_buffer_length(const struct cs_block_buffer *buffer);

/*
 Reads into a whole buffer. Where the request is refused (a negative errno), the buffer stays the caller's, and the
 callback is not called. -EBUSY where another request has the buffer.
 */
int cs_block_read(struct cs_block_queue *queue,
                  uint64_t offset,
                  struct cs_block_buffer *buffer,
                  cs_block_done done,
                  void *argument);

/*
 Writes a whole buffer; otherwise as `cs_block_read`.
 */
int cs_block_write(struct cs_block_queue *queue,
                   uint64_t offset,
                   struct cs_block_buffer *buffer,
                   cs_block_done done,
                   void *argument);

/*
 Makes what was written before durable (fsync).
 */
int cs_block_flush(struct cs_block_queue *queue, cs_block_done done, void *argument);

/*
 Looks what is over, and calls its callbacks: how many there were.
 */
int cs_block_poll(struct cs_block_queue *queue);

/*
 As `cs_block_poll`, but sleeps until a request is over, or for so many nanoseconds (`UINT64_MAX` for no limit). Returns at
 once where nothing is outstanding.
 */
int cs_block_wait(struct cs_block_queue *queue,
                  uint64_t timeout_ns);

/*
 How many requests are outstanding.
 */
int cs_block_outstanding(struct cs_block_queue *queue);

/*
 A host whose devices together have at most `depth` requests in flight (0 for the default, 128), each device of them a fair
 share; for so many threads, each with a queue to a device; at a node of the machine, where what devices share is then
 allocated (negative where it is not known).
 */
struct cs_block_host *cs_block_host(unsigned int depth,
                                    unsigned int threads,
                                    int node);

/*
 Lets go of a host; its targets and devices go on. Null is fine.
 */
void cs_block_host_free(struct cs_block_host *host);

/*
 A target of a host's, whose devices together have at most `max_in_flight` requests in flight; 0 for the host's limit alone.
 */
struct cs_block_target *cs_block_target(struct cs_block_host *host,
                                        const char *name,
                                        unsigned int max_in_flight);

/*
 Takes all devices of a target offline: they take no more requests, what waits fails when its queue is polled next, and
 what a device has is finished.
 */
int cs_block_target_set_offline(struct cs_block_target *target);

/*
 Lets go of a target; its devices go on. Null is fine.
 */
void cs_block_target_free(struct cs_block_target *target);

/*
 As `cs_block_open`, as a device of a target's, and for as many threads as its host is.
 */
struct cs_block_device *cs_block_open_on(struct cs_block_target *target,
                                         const char *path,
                                         unsigned int flags);

/*
 As `cs_block_memory`, as a device of a target's, and for as many threads as its host is.
 */
struct cs_block_device *cs_block_memory_on(struct cs_block_target *target, uint64_t bytes);

/*
 Queues a call of a function with two words, whatever they hold, at the pool of the CPU that the caller runs on.
 Allocates nothing for it, but room where a backlog grows. Unlike a work it cannot be waited for or cancelled by itself, and the same call may be queued any number
 of times.

 Returns 1. Where it fails, as `cs_queue_work` does, the words are the caller's.
 */
int cs_queue_call(struct cs_workqueue *queue,
                  struct cs_call *call,
                  uint64_t first,
                  uint64_t second);

/*
 As `cs_queue_call`, in the pod of a CPU. -EINVAL where it is none of the queue's.
 */
int cs_queue_call_on(struct cs_workqueue *queue,
                     uint32_t cpu,
                     struct cs_call *call,
                     uint64_t first,
                     uint64_t second);

/*
 Has a function told what the checking mode finds, instead of a line on standard error and `abort`. Returns the one
 before; null for none.
 */
cs_check_handler cs_set_check_handler(cs_check_handler handler);

/*
 Says that memory is about to be freed: in the checking mode, a work in it that is queued is found. The library that
 `install.sh` calls `libcoreshard_check.so` calls it for every `free` of a program that it is preloaded to.
 */
void cs_check_free(const void *memory,
                   size_t bytes);

/*
 Why the latest call of this thread that failed has failed: a sentence, in English; never null. It is there until this
 thread's next call that fails.
 */
const char *cs_last_error(void);

/*
 Calls both functions, at once where another worker has time for the second one, and comes back when both are over.
 On a thread that is no worker, both go to a queue of the process's own.
 */
int cs_join(cs_function first,
            void *first_argument,
            cs_function second,
            void *second_argument);

/*
 Calls a function on one of the queue's workers, and waits for it: there `cs_join` finds others to help. Inside one of the
 queue's works it is called at once. -EDEADLK where it could not begin before the caller is over.
 */
int cs_call_on(struct cs_workqueue *queue,
               cs_function function,
               void *argument);

/*
 Calls a function with parts of a range that together are the whole, on as many of the queue's workers as find time, and
 waits for all.
 */
int cs_for_range(struct cs_workqueue *queue,
                 size_t begin,
                 size_t end,
                 cs_range_function function,
                 void *argument);

/*
 Says that the calling work is about to wait for something else than a CPU: another worker takes its place until
 `cs_blocking_end`. The two are called in pairs, on one thread; on a thread that is no worker they do nothing.
 */
int cs_blocking_begin(void);

/*
 The wait is over. -EINVAL without a `cs_blocking_begin` on this thread.
 */
int cs_blocking_end(void);

/*
 1 inside a work that runs on its queue's worker in reserve (`CS_WQ_MEM_RECLAIM`), else 0.
 */
int cs_current_is_rescuer(void);

/*
 Says what the process's runtime is to be, before the first queue is made; -EEXIST after that.
 */
int cs_configure(const struct cs_config *config);

/*
 Serves the socket at which `coreshard top` sees this process's queues and pools; 1 if it is served already.
 */
int cs_serve_insight(void);

/*
 Serves it no more; 1 if it was not served.
 */
int cs_stop_insight(void);

/*
 Makes a queue: flags (`CS_WQ_…`), and how many of its works run at once, 0 for no limit. Null where it cannot be had:
 errno and `cs_last_error` say why.
 */
struct cs_workqueue *cs_alloc_workqueue(const char *name,
                                        unsigned int flags,
                                        int max_active);

/*
 Makes a queue with all that one may ask for. Null where it cannot be had: errno and `cs_last_error` say why.
 */
struct cs_workqueue *cs_alloc_workqueue_attrs(const char *name, const struct cs_workqueue_attrs *attrs);

/*
 Changes a queue while it is used: what runs goes on as it was, what comes is as the attributes say, all of them. Whether
 it is ordered stays; so do `CS_WQ_MEM_RECLAIM`, the stacks and the name.
 */
int cs_change_workqueue(struct cs_workqueue *queue,
                        const struct cs_workqueue_attrs *attrs);

/*
 1 if the queue was made, or changed last, with `CS_WQ_PERCPU`, else 0.
 */
int cs_workqueue_is_percpu(struct cs_workqueue *queue);

/*
 Another limit on how many works run at once, in the queue or with `CS_WQ_PERCPU` on each CPU, 0 for none; what waits may go at
 once. -EINVAL of an ordered queue.
 */
int cs_workqueue_set_max_active(struct cs_workqueue *queue,
                                int max_active);

/*
 The queue's name. There as long as the queue.
 */
const char *cs_workqueue_name(struct cs_workqueue *queue);

/*
 Waits until all that was queued before is over; not for what comes after, nor for delayed works whose time has not come.
 -EDEADLK inside one of the queue's own works.
 */
int cs_flush_workqueue(struct cs_workqueue *queue);

/*
 Waits until nothing is left, while the queue's own works alone may queue more; others get -EBUSY. -EDEADLK inside one of
 them.
 */
int cs_drain_workqueue(struct cs_workqueue *queue);

/*
 Lets no further work begin, until `cs_thaw_workqueue`.
 */
int cs_freeze_workqueue(struct cs_workqueue *queue);

/*
 Lets the works go that waited since `cs_freeze_workqueue`.
 */
int cs_thaw_workqueue(struct cs_workqueue *queue);

/*
 Runs all that was queued to its end, and frees the queue. A delayed work whose time has not come stays pending until then, and
 is dropped: cancel it before, or move it to another queue by `cs_mod_delayed_work`. -EDEADLK inside one of the queue's own works: then nothing is done. In a process that was forked since the
 queue was made, nothing is run. -EINVAL of a queue of `cs_system_workqueue`.
 */
int cs_destroy_workqueue(struct cs_workqueue *queue);

/*
 A queue of the process's own (`enum cs_system_workqueue_kind`), made with the first call, and never destroyed. Null, and
 errno, where it cannot be had.
 */
struct cs_workqueue *cs_system_workqueue(int which);

/*
 An executor on the CPUs that are named ("2-5"; null for those that the process may use). Where `degraded` is not 0, what the machine does not grant is
 done without, and `cs_rt_lacking` tells how many things that are; else it is an error. Null, and errno, then.
 */
struct cs_rt_executor *cs_rt_executor(const char *mask,
                                      int degraded);

/*
 How many things the machine did not grant.
 */
int cs_rt_lacking(const struct cs_rt_executor *executor);

/*
 Runs what was accepted, ends the threads. Null is fine.
 */
void cs_rt_executor_free(struct cs_rt_executor *executor);

/*
 Has a function called at a priority (1 to 99), on the CPU that runs the least important work. Null, and errno, where it
 cannot be.
 */
struct cs_rt_task *cs_rt_spawn(struct cs_rt_executor *executor,
                               int priority_of,
                               cs_function function,
                               void *argument);

/*
 Waits until a task is over, and frees its handle. -ECHILD where it never is: this process was forked from its own; -EDEADLK inside of
 itself, where nothing is done.
 */
int cs_rt_join(struct cs_rt_task *task);

/*
 Has a function called every `period_ns` nanoseconds, at a priority; what is missed is left out. Null, and errno, where it
 cannot be.
 */
struct cs_rt_periodic *cs_rt_periodic(struct cs_rt_executor *executor,
                                      uint64_t period_ns,
                                      int priority_of,
                                      cs_function function,
                                      void *argument);

/*
 Stops a periodic task, waits until it is over, tells what it has done (`stats` may be null), and frees its handle.
 */
int cs_rt_stop(struct cs_rt_periodic *periodic,
               struct cs_rt_periodic_stats *stats);

/*
 A free mutex.
 */
struct cs_rt_mutex *cs_rt_mutex(void);

/*
 Frees a mutex that nobody holds. Null is fine.
 */
void cs_rt_mutex_free(struct cs_rt_mutex *mutex);

/*
 Takes a mutex; its holder has the priority of the most important thread that waits. -EDEADLK where the caller holds it,
 or would wait for itself; -EOWNERDEAD where its holder has ended with it.
 */
int cs_rt_mutex_lock(struct cs_rt_mutex *mutex);

/*
 Takes a mutex if it is free; -EBUSY otherwise.
 */
int cs_rt_mutex_trylock(struct cs_rt_mutex *mutex);

/*
 Lets go of a mutex that the calling thread holds; it goes to the most important thread that waits.
 */
int cs_rt_mutex_unlock(struct cs_rt_mutex *mutex);

/*
 Fills in counts: of `size` bytes, `sizeof(struct cs_workqueue_stats)`.
 */
int cs_workqueue_stats(struct cs_workqueue *queue, struct cs_workqueue_stats *stats, size_t size);

/*
 This machine. Null, and errno, where it cannot be read.
 */
struct cs_topology *cs_topology_host(void);

/*
 Another machine: by the name of a preset, or as in "pack:2 numa:1 l3:4 core:8 pu:2". Null, and errno, where there is none.
 */
struct cs_topology *cs_topology_parse(const char *machine);

/*
 Frees a machine's description; null is fine.
 */
void cs_topology_free(struct cs_topology *topology);

/*
 How many CPUs are online.
 */
int cs_topology_cpus(const struct cs_topology *machine);

/*
 How many last-level caches there are.
 */
int cs_topology_llcs(const struct cs_topology *machine);

/*
 How many nodes there are.
 */
int cs_topology_nodes(const struct cs_topology *machine);

/*
 Divides a machine's CPUs, or those that `mask` names ("0-3,8"), into pods by a scope (`enum cs_scope`); `shard_size` is how
 many cores a cache shard is to have, 0 for the default. Null, and errno, where a CPU is not there.
 */
struct cs_pods *cs_pods(const struct cs_topology *machine,
                        int scope_of,
                        unsigned int shard_size,
                        const char *mask);

/*
 Frees pods; null is fine.
 */
void cs_pods_free(struct cs_pods *pods);

/*
 How many pods there are.
 */
int cs_pods_count(const struct cs_pods *pods);

/*
 The pod of a CPU, from 0 on; -ENOENT outside of the mask.
 */
int cs_pod_of(const struct cs_pods *pods, unsigned int cpu);

/*
 A pod's CPUs, as "0-3,8"; null where there is no such pod. There as long as the pods.
 */
const char *cs_pod_cpus(const struct cs_pods *pods, unsigned int pod);

/*
 Sets a work up, in whatever memory. Not one that is pending. In C, `cs_work_init` calls it, with the function's name.
 */
void cs_work_init_named(struct cs_work *work,
                        void (*function)(struct cs_work *work),
                        const char *name);

/*
 Queues a work at the pool of the CPU that the caller runs on. Allocates nothing for it, but room where a backlog grows.

 Returns 1; 0 if it was pending: then the run to come sees what the caller wrote before. Or -EPERM where it is disabled,
 -ESHUTDOWN, -EBUSY (the queue is drained), -ECHILD (the queue is of the process that this one was forked from, or the work was pending there: it never runs here,
 and can be queued when it was cancelled, or set up anew), -EINVAL.
 */
int cs_queue_work(struct cs_workqueue *queue,
                  struct cs_work *work);

/*
 As `cs_queue_work`, in the pod of a CPU. -EINVAL where it is none of the queue's.
 */
int cs_queue_work_on(struct cs_workqueue *queue, uint32_t cpu, struct cs_work *work);

/*
 As `cs_queue_work`, in a pod on a node. -EINVAL where none of the queue's pods lies there.
 */
int cs_queue_work_node(struct cs_workqueue *queue, uint32_t node, struct cs_work *work);

/*
 Queues a work when `delay_ns` nanoseconds are over; at once for 0. Returns as `cs_queue_work`; -ERANGE for a delay
 beyond the clock, -EAGAIN where no thread can be had that waits.
 */
int cs_queue_delayed_work(struct cs_workqueue *queue,
                          struct cs_work *work,
                          uint64_t delay_ns);

/*
 As `cs_queue_delayed_work`, in the pod of a CPU.
 */
int cs_queue_delayed_work_on(struct cs_workqueue *queue,
                             uint32_t cpu,
                             struct cs_work *work,
                             uint64_t delay_ns);

/*
 Queues a work when `delay_ns` are over, in the place of a queueing that has not begun. 1 if there was one, else 0.
 */
int cs_mod_delayed_work(struct cs_workqueue *queue,
                        struct cs_work *work,
                        uint64_t delay_ns);

/*
 As `cs_mod_delayed_work`, in the pod of a CPU.
 */
int cs_mod_delayed_work_on(struct cs_workqueue *queue, uint32_t cpu, struct cs_work *work, uint64_t delay_ns);

/*
 Waits until the latest queueing of a work is over, or void; a delayed one is brought forward. 1; or 0 if there was
 nothing to wait for; -EDEADLK inside the work itself, or inside what it waits behind in an ordered queue.
 */
int cs_flush_work(struct cs_work *work);

/*
 Makes a queueing that has not begun void: 1 if there was one, else 0. A run that goes on is not waited for.
 */
int cs_cancel_work(struct cs_work *work);

/*
 As `cs_cancel_work`, and waits until the work does not run; it cannot be queued meanwhile. -EDEADLK inside itself.
 */
int cs_cancel_work_sync(struct cs_work *work);

/*
 Cancels a work, and lets nobody queue it until it was enabled as often as disabled: 1 if it was pending, else 0.
 */
int cs_disable_work(struct cs_work *work);

/*
 As `cs_disable_work`, and waits until the work does not run. -EDEADLK inside itself.
 */
int cs_disable_work_sync(struct cs_work *work);

/*
 Takes one disable back: 1 if the work can be queued again, else 0; -EINVAL if it was not disabled.
 */
int cs_enable_work(struct cs_work *work);

/*
 1 if a work is queued, or waits for its time, and has not begun; else 0.
 */
int cs_work_pending(struct cs_work *work);

/*
 1 if a worker is inside a work's function; else 0.
 */
int cs_work_running(struct cs_work *work);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CORESHARD_H */

#ifdef CORESHARD_PUSHED
#undef CORESHARD_PUSHED
#pragma GCC diagnostic pop
#endif
