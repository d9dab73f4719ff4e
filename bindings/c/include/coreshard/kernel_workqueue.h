/*
 * The Linux kernel's names for Coreshard's work queues, for kernel-style C in user space. They were written from the
 * kernel's documentation (Documentation/core-api/workqueue.rst) and the behaviour that it describes. KERNEL-NAMES.md of
 * this library lists each name, what it preserves, and its test.
 *
 * docs/KERNEL-OPERATIONS.md lists each operation, the differences and their reasons. In short:
 *
 * - A delay is in jiffies. A second has HZ jiffies: the program's HZ if defined earlier, otherwise 1000.
 * - WQ_UNBOUND queues have the affinity scope cache_shard, and max_active applies to the whole queue; 0 means no limit.
 *   All others, WQ_PERCPU or not, run works on the CPU that queued them, with at most max_active on each CPU. WQ_HIGHPRI
 *   requests nice -20, and has no effect if that is not permitted. WQ_MEM_RECLAIM keeps a rescuer in each pool, and so on
 *   each CPU of a queue without WQ_UNBOUND.
 * - Memory comes from malloc; gfp flags other than __GFP_ZERO have no effect.
 * - A wait that could never end (a work that flushes itself) warns and returns. The kernel hangs.
 * - There is no softirq and no RCU: WQ_BH queues are WQ_HIGHPRI ones, and there is no struct rcu_work.
 * - alloc_workqueue() fails, with NULL and errno, if the machine's CPUs cannot be read or no thread can be started.
 *
 * Other errors than false (a queue that is draining or destroyed) are reported by CORESHARD_KERNEL_WARN(text), which may
 * be defined earlier, and otherwise prints a line on standard error.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CORESHARD_KERNEL_WORKQUEUE_H
#define CORESHARD_KERNEL_WORKQUEUE_H

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../coreshard.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef HZ
#define CORESHARD_KERNEL_HZ HZ
#else
#define CORESHARD_KERNEL_HZ 1000
#endif

#ifndef CORESHARD_KERNEL_WARN
#define CORESHARD_KERNEL_WARN(text) ((void)fprintf(stderr, "coreshard: %s\n", (text)))
#endif

/* ---- helpers of work functions ---- */

#ifndef container_of
#define container_of(pointer, type, member) cs_container_of(pointer, type, member)
#endif

/* A single access that the compiler neither splits, repeats nor omits. */
#ifndef READ_ONCE
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#endif
#ifndef WRITE_ONCE
#define WRITE_ONCE(x, value) ((void)(*(volatile __typeof__(x) *)&(x) = (value)))
#endif
#ifndef barrier
#define barrier() __asm__ __volatile__("" ::: "memory")
#endif
#ifndef smp_mb
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
#ifndef smp_rmb
#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQ_REL)
#endif
#ifndef smp_wmb
#define smp_wmb() __atomic_thread_fence(__ATOMIC_ACQ_REL)
#endif
#ifndef smp_load_acquire
#define smp_load_acquire(pointer) __atomic_load_n((pointer), __ATOMIC_ACQUIRE)
#endif
#ifndef smp_store_release
#define smp_store_release(pointer, value) __atomic_store_n((pointer), (value), __ATOMIC_RELEASE)
#endif

typedef unsigned int gfp_t;

#ifndef __GFP_ZERO
#define __GFP_ZERO 0x100u
#endif
#ifndef GFP_KERNEL
#define GFP_KERNEL 0u
#endif
#ifndef GFP_ATOMIC
#define GFP_ATOMIC 0u
#endif
#ifndef GFP_NOWAIT
#define GFP_NOWAIT 0u
#endif
#ifndef GFP_NOIO
#define GFP_NOIO 0u
#endif
#ifndef GFP_NOFS
#define GFP_NOFS 0u
#endif

/* Not null, even for 0 bytes. */
static inline void *kmalloc(size_t size, gfp_t flags)
{
	size_t bytes = size ? size : 1;

	return flags & __GFP_ZERO ? calloc(1, bytes) : malloc(bytes);
}

static inline void *kzalloc(size_t size, gfp_t flags) { return kmalloc(size, flags | __GFP_ZERO); }

/* Null if the product overflows. */
static inline void *kmalloc_array(size_t count, size_t size, gfp_t flags)
{
	return size && count > SIZE_MAX / size ? NULL : kmalloc(count * size, flags);
}

static inline void *kcalloc(size_t count, size_t size, gfp_t flags)
{
	return kmalloc_array(count, size, flags | __GFP_ZERO);
}

static inline void kfree(const void *memory) { free((void *)(uintptr_t)memory); }

/* ---- time ---- */

#ifndef MAX_JIFFY_OFFSET
#define MAX_JIFFY_OFFSET ((unsigned long)(LONG_MAX / 2 - 1))
#endif

static inline unsigned long cs_jiffies_of(uint64_t count, uint64_t of_a_second)
{
	uint64_t whole = count / of_a_second, rest = count % of_a_second;

	if (whole > MAX_JIFFY_OFFSET / CORESHARD_KERNEL_HZ - 1)
		return MAX_JIFFY_OFFSET;
	return (unsigned long)(whole * CORESHARD_KERNEL_HZ +
			       (rest * CORESHARD_KERNEL_HZ + of_a_second - 1) / of_a_second);
}

/* Rounds up, so that no wait is too short. Values that are negative as an int give the maximum. */
static inline unsigned long msecs_to_jiffies(const unsigned int milliseconds)
{
	return (int)milliseconds < 0 ? MAX_JIFFY_OFFSET : cs_jiffies_of(milliseconds, 1000);
}

static inline unsigned long usecs_to_jiffies(const unsigned int microseconds)
{
	return cs_jiffies_of(microseconds, 1000000);
}

static inline unsigned long secs_to_jiffies(const unsigned int seconds) { return cs_jiffies_of(seconds, 1); }

static inline unsigned int jiffies_to_msecs(const unsigned long count)
{
	return (unsigned int)(count / CORESHARD_KERNEL_HZ * 1000 + count % CORESHARD_KERNEL_HZ * 1000 / CORESHARD_KERNEL_HZ);
}

/* ---- works ---- */

struct work_struct;
typedef void (*work_func_t)(struct work_struct *work);

/* Like struct cs_work. func may be read at any time, and set while the work is neither pending nor running. */
struct work_struct {
	work_func_t func;
	const char *cs_name;
	uint64_t cs_reserved[6];
};

struct delayed_work {
	struct work_struct work;
};

struct execute_work {
	struct work_struct work;
};

static inline struct cs_work *cs_of_work(struct work_struct *work)
{
	return (struct cs_work *)(void *)work;
}

static inline struct delayed_work *to_delayed_work(struct work_struct *work)
{
	return cs_container_of(work, struct delayed_work, work);
}

#define __WORK_INITIALIZER(n, f) { (f), #f, { 0, 0, 0, 0, 0, 0 } }
#define __DELAYED_WORK_INITIALIZER(n, f, timer_flags) { __WORK_INITIALIZER((n).work, f) }
#define DECLARE_WORK(n, f) struct work_struct n = __WORK_INITIALIZER(n, f)
#define DECLARE_DELAYED_WORK(n, f) struct delayed_work n = __DELAYED_WORK_INITIALIZER(n, f, 0)
#define DECLARE_DEFERRABLE_WORK(n, f) DECLARE_DELAYED_WORK(n, f)

static inline void cs_init_work(struct work_struct *work, work_func_t func, const char *name)
{
	/* The function types are interchangeable: their argument has the same address. */
	cs_work_init_named(cs_of_work(work), (void (*)(struct cs_work *))(void (*)(void))func, name);
}

#define INIT_WORK(work, func) cs_init_work((work), (func), #func)
#define INIT_WORK_ONSTACK(work, func) INIT_WORK((work), func)
#define INIT_DELAYED_WORK(delayed, func) cs_init_work(&(delayed)->work, (func), #func)
#define INIT_DELAYED_WORK_ONSTACK(delayed, func) INIT_DELAYED_WORK((delayed), func)
#define INIT_DEFERRABLE_WORK(delayed, func) INIT_DELAYED_WORK((delayed), func)
#define INIT_DEFERRABLE_WORK_ONSTACK(delayed, func) INIT_DELAYED_WORK((delayed), func)
#define PREPARE_WORK(work, function) ((void)((work)->func = (function)))
#define PREPARE_DELAYED_WORK(delayed, function) PREPARE_WORK(&(delayed)->work, function)

static inline void destroy_work_on_stack(struct work_struct *work) { (void)work; }
static inline void destroy_delayed_work_on_stack(struct delayed_work *work) { (void)work; }

/* Returns true for 1. Errors with other causes than the work's state are reported. */
static inline bool cs_kernel_bool(int outcome)
{
	if (outcome < 0 && outcome != -EPERM)
		CORESHARD_KERNEL_WARN(cs_last_error());
	return outcome > 0;
}

#define work_pending(work) (cs_work_pending(cs_of_work(work)) > 0)
#define delayed_work_pending(delayed) work_pending(&(delayed)->work)

enum work_bits_of_busy { WORK_BUSY_PENDING = 1 << 0, WORK_BUSY_RUNNING = 1 << 1 };

static inline unsigned int work_busy(struct work_struct *work)
{
	return (cs_work_pending(cs_of_work(work)) > 0 ? WORK_BUSY_PENDING : 0) |
	       (cs_work_running(cs_of_work(work)) > 0 ? WORK_BUSY_RUNNING : 0);
}

static inline bool flush_work(struct work_struct *work)
{
	return cs_kernel_bool(cs_flush_work(cs_of_work(work)));
}

static inline bool cancel_work(struct work_struct *work)
{
	return cs_kernel_bool(cs_cancel_work(cs_of_work(work)));
}

static inline bool cancel_work_sync(struct work_struct *work)
{
	return cs_kernel_bool(cs_cancel_work_sync(cs_of_work(work)));
}

static inline bool disable_work(struct work_struct *work)
{
	return cs_kernel_bool(cs_disable_work(cs_of_work(work)));
}

static inline bool disable_work_sync(struct work_struct *work)
{
	return cs_kernel_bool(cs_disable_work_sync(cs_of_work(work)));
}

static inline bool enable_work(struct work_struct *work)
{
	return cs_kernel_bool(cs_enable_work(cs_of_work(work)));
}

static inline bool flush_delayed_work(struct delayed_work *work) { return flush_work(&work->work); }
static inline bool cancel_delayed_work(struct delayed_work *work) { return cancel_work(&work->work); }
static inline bool cancel_delayed_work_sync(struct delayed_work *work) { return cancel_work_sync(&work->work); }
static inline bool disable_delayed_work(struct delayed_work *work) { return disable_work(&work->work); }
static inline bool disable_delayed_work_sync(struct delayed_work *work) { return disable_work_sync(&work->work); }
static inline bool enable_delayed_work(struct delayed_work *work) { return enable_work(&work->work); }

/* ---- queues ---- */

struct workqueue_struct;

enum wq_flags {
	WQ_BH = 1 << 0,
	WQ_UNBOUND = 1 << 1,
	WQ_FREEZABLE = 1 << 2,
	WQ_MEM_RECLAIM = 1 << 3,
	WQ_HIGHPRI = 1 << 4,
	WQ_CPU_INTENSIVE = 1 << 5,
	WQ_SYSFS = 1 << 6,
	WQ_POWER_EFFICIENT = 1 << 7,
	WQ_PERCPU = 1 << 8,
	__WQ_ORDERED = 1 << 17,
	__WQ_LEGACY = 1 << 18,
};

enum wq_consts {
	WQ_MAX_ACTIVE = 2048,
	WQ_UNBOUND_MAX_ACTIVE = WQ_MAX_ACTIVE,
	WQ_DFL_ACTIVE = WQ_MAX_ACTIVE / 2,
	WQ_DFL_MIN_ACTIVE = 8,
	WORKER_DESC_LEN = 32,
};

enum wq_affn_scope {
	WQ_AFFN_DFL = CS_SCOPE_DEFAULT,
	WQ_AFFN_CPU = CS_SCOPE_CPU,
	WQ_AFFN_SMT = CS_SCOPE_SMT,
	WQ_AFFN_CACHE_SHARD = CS_SCOPE_CACHE_SHARD,
	WQ_AFFN_CACHE = CS_SCOPE_CACHE,
	WQ_AFFN_NUMA = CS_SCOPE_NUMA,
	WQ_AFFN_SYSTEM = CS_SCOPE_SYSTEM,
};

/* The mask is a list of CPUs such as "0-3,8"; NULL means all. */
struct workqueue_attrs {
	int nice;
	const char *cpumask;
	bool affn_strict;
	enum wq_affn_scope affn_scope;
	bool ordered;
};

static inline struct cs_workqueue *cs_of_queue(struct workqueue_struct *wq)
{
	return (struct cs_workqueue *)(void *)wq;
}

static inline struct workqueue_struct *cs_kernel_alloc(unsigned int flags, int max_active, const char *format,
						       va_list arguments)
{
	struct cs_workqueue_attrs attrs = CS_WORKQUEUE_ATTRS_INIT;
	char name[64];

	vsnprintf(name, sizeof(name), format, arguments);
	if (flags & __WQ_ORDERED)
		attrs.flags |= CS_WQ_ORDERED;
	else
		attrs.max_active = max_active;
	if (flags & WQ_MEM_RECLAIM)
		attrs.flags |= CS_WQ_MEM_RECLAIM;
	if (flags & (WQ_HIGHPRI | WQ_BH))
		attrs.flags |= CS_WQ_HIGHPRI | CS_WQ_HIGHPRI_IF_ALLOWED;
	/* Unbound, as with the kernel parameter workqueue.power_efficient. */
	if (flags & WQ_POWER_EFFICIENT)
		attrs.scope = CS_SCOPE_NUMA;
	else if (!(flags & (WQ_UNBOUND | __WQ_ORDERED)))
		attrs.flags |= CS_WQ_PERCPU;
	return (struct workqueue_struct *)(void *)cs_alloc_workqueue_attrs(name, &attrs);
}

__attribute__((format(printf, 1, 4), unused)) static struct workqueue_struct *
alloc_workqueue(const char *fmt, unsigned int flags, int max_active, ...)
{
	struct workqueue_struct *wq;
	va_list arguments;

	va_start(arguments, max_active);
	wq = cs_kernel_alloc(flags, max_active, fmt, arguments);
	va_end(arguments);
	return wq;
}

__attribute__((format(printf, 1, 3), unused)) static struct workqueue_struct *
alloc_ordered_workqueue(const char *fmt, unsigned int flags, ...)
{
	struct workqueue_struct *wq;
	va_list arguments;

	va_start(arguments, flags);
	wq = cs_kernel_alloc(flags | WQ_UNBOUND | __WQ_ORDERED, 1, fmt, arguments);
	va_end(arguments);
	return wq;
}

#define create_workqueue(name) alloc_workqueue("%s", WQ_PERCPU | __WQ_LEGACY | WQ_MEM_RECLAIM, 1, (name))
#define create_freezable_workqueue(name) \
	alloc_workqueue("%s", __WQ_LEGACY | WQ_FREEZABLE | WQ_UNBOUND | WQ_MEM_RECLAIM, 1, (name))
#define create_singlethread_workqueue(name) alloc_ordered_workqueue("%s", __WQ_LEGACY | WQ_MEM_RECLAIM, (name))

static inline void cs_kernel_void(int outcome)
{
	if (outcome < 0)
		CORESHARD_KERNEL_WARN(cs_last_error());
}

static inline void destroy_workqueue(struct workqueue_struct *wq)
{
	cs_kernel_void(cs_destroy_workqueue(cs_of_queue(wq)));
}

static inline void flush_workqueue(struct workqueue_struct *wq)
{
	cs_kernel_void(cs_flush_workqueue(cs_of_queue(wq)));
}
#define __flush_workqueue(wq) flush_workqueue(wq)

static inline void drain_workqueue(struct workqueue_struct *wq)
{
	cs_kernel_void(cs_drain_workqueue(cs_of_queue(wq)));
}

static inline void workqueue_set_max_active(struct workqueue_struct *wq, int max_active)
{
	cs_kernel_void(cs_workqueue_set_max_active(cs_of_queue(wq), max_active));
}

/* The minimum is fixed: min(max_active, 8) works that wait for one another make progress. */
static inline void workqueue_set_min_active(struct workqueue_struct *wq, int min_active)
{
	(void)wq;
	(void)min_active;
}

/* Returns true if works wait for their turn. */
static inline bool workqueue_congested(int cpu, struct workqueue_struct *wq)
{
	struct cs_workqueue_stats stats;

	(void)cpu;
	return cs_workqueue_stats(cs_of_queue(wq), &stats, sizeof(stats)) == 0 && stats.waiting > 0;
}

static inline struct workqueue_attrs *alloc_workqueue_attrs(void)
{
	return (struct workqueue_attrs *)calloc(1, sizeof(struct workqueue_attrs));
}

static inline void free_workqueue_attrs(struct workqueue_attrs *attrs) { free(attrs); }

/* For unbound queues; max_active does not change. Returns 0 or a negative errno. */
static inline int apply_workqueue_attrs(struct workqueue_struct *wq, const struct workqueue_attrs *attrs)
{
	struct cs_workqueue_attrs wanted = CS_WORKQUEUE_ATTRS_INIT;

	if (cs_workqueue_is_percpu(cs_of_queue(wq)) > 0) {
		CORESHARD_KERNEL_WARN("apply_workqueue_attrs: the queue was made without WQ_UNBOUND; only unbound queues have attributes");
		return -EINVAL;
	}
	wanted.flags = attrs->ordered ? CS_WQ_ORDERED : 0u;
	wanted.scope = attrs->affn_scope;
	wanted.strict = attrs->affn_strict;
	wanted.has_nice = attrs->nice != 0;
	wanted.nice = attrs->nice;
	wanted.cpus = attrs->cpumask;
	wanted.max_active = CS_MAX_ACTIVE_KEPT;
	return cs_change_workqueue(cs_of_queue(wq), &wanted);
}

/* ---- queueing ---- */

#define WORK_CPU_UNBOUND INT_MAX

static inline uint64_t cs_ns_of_jiffies(unsigned long jiffies_of_delay)
{
	const uint64_t jiffy = 1000000000u / CORESHARD_KERNEL_HZ;

	return jiffies_of_delay > UINT64_MAX / jiffy ? UINT64_MAX : jiffies_of_delay * jiffy;
}

static inline bool queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	return cs_kernel_bool(cs_queue_work(cs_of_queue(wq), cs_of_work(work)));
}

static inline bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	if (cpu == WORK_CPU_UNBOUND)
		return queue_work(wq, work);
	return cs_kernel_bool(cs_queue_work_on(cs_of_queue(wq), (uint32_t)cpu, cs_of_work(work)));
}

static inline bool queue_work_node(int node, struct workqueue_struct *wq, struct work_struct *work)
{
	/* NUMA_NO_NODE is -1. */
	if (node < 0)
		return queue_work(wq, work);
	return cs_kernel_bool(cs_queue_work_node(cs_of_queue(wq), (uint32_t)node, cs_of_work(work)));
}

static inline bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *work, unsigned long delay)
{
	return cs_kernel_bool(
		cs_queue_delayed_work(cs_of_queue(wq), cs_of_work(&work->work), cs_ns_of_jiffies(delay)));
}

static inline bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *work,
					 unsigned long delay)
{
	if (cpu == WORK_CPU_UNBOUND)
		return queue_delayed_work(wq, work, delay);
	return cs_kernel_bool(cs_queue_delayed_work_on(cs_of_queue(wq), (uint32_t)cpu, cs_of_work(&work->work),
						       cs_ns_of_jiffies(delay)));
}

static inline bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *work, unsigned long delay)
{
	return cs_kernel_bool(
		cs_mod_delayed_work(cs_of_queue(wq), cs_of_work(&work->work), cs_ns_of_jiffies(delay)));
}

static inline bool mod_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *work,
				       unsigned long delay)
{
	if (cpu == WORK_CPU_UNBOUND)
		return mod_delayed_work(wq, work, delay);
	return cs_kernel_bool(cs_mod_delayed_work_on(cs_of_queue(wq), (uint32_t)cpu, cs_of_work(&work->work),
						     cs_ns_of_jiffies(delay)));
}

static inline bool enable_and_queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	if (!enable_work(work))
		return false;
	queue_work(wq, work);
	return true;
}

/* ---- the process's queues ---- */

static inline struct workqueue_struct *cs_kernel_system(int which)
{
	return (struct workqueue_struct *)(void *)cs_system_workqueue(which);
}

#define system_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_PERCPU)
#define system_percpu_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_PERCPU)
#define system_long_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_PERCPU)
#define system_unbound_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_DEFAULT)
#define system_dfl_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_DEFAULT)
#define system_dfl_long_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_DEFAULT)
#define system_freezable_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_PERCPU)
#define system_highpri_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_PERCPU_HIGHPRI)
#define system_bh_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_PERCPU_HIGHPRI)
#define system_bh_highpri_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_PERCPU_HIGHPRI)
#define system_power_efficient_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_POWER_EFFICIENT)
#define system_freezable_power_efficient_wq cs_kernel_system(CS_SYSTEM_WORKQUEUE_KIND_POWER_EFFICIENT)

static inline bool schedule_work(struct work_struct *work) { return queue_work(system_wq, work); }

static inline bool schedule_work_on(int cpu, struct work_struct *work)
{
	return queue_work_on(cpu, system_wq, work);
}

static inline bool schedule_delayed_work(struct delayed_work *work, unsigned long delay)
{
	return queue_delayed_work(system_wq, work, delay);
}

static inline bool schedule_delayed_work_on(int cpu, struct delayed_work *work, unsigned long delay)
{
	return queue_delayed_work_on(cpu, system_wq, work, delay);
}

#define flush_scheduled_work() flush_workqueue(system_wq)

/* Runs a function on each CPU that the process may use, and waits. Returns 0 or -ENOMEM. */
static inline int schedule_on_each_cpu(work_func_t func)
{
	struct cs_topology *machine = cs_topology_host();
	struct cs_pods *each = cs_pods(machine, CS_SCOPE_CPU, 0, NULL);
	int pods = cs_pods_count(each), pod;
	struct work_struct *works;

	cs_topology_free(machine);
	works = pods > 0 ? (struct work_struct *)calloc((size_t)pods, sizeof(*works)) : NULL;
	if (!works) {
		cs_pods_free(each);
		return -ENOMEM;
	}
	for (pod = 0; pod < pods; pod++) {
		const char *cpu = cs_pod_cpus(each, (unsigned int)pod);

		cs_init_work(&works[pod], func, "schedule_on_each_cpu");
		/* Online CPUs that the process may not use are rejected. */
		cs_queue_work_on(cs_of_queue(system_wq), (uint32_t)strtoul(cpu, NULL, 10), cs_of_work(&works[pod]));
	}
	for (pod = 0; pod < pods; pod++)
		flush_work(&works[pod]);
	free(works);
	cs_pods_free(each);
	return 0;
}

/* A process has no other context: calls the function at once and returns 0. */
static inline int execute_in_process_context(work_func_t func, struct execute_work *work)
{
	func(&work->work);
	return 0;
}

static inline bool current_is_workqueue_rescuer(void) { return cs_current_is_rescuer() > 0; }

/* Reports contain the name of a work's function. */
#define set_worker_desc(...) ((void)0)

#ifdef __cplusplus
}
#endif

#endif
