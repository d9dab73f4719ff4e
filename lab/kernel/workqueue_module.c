// SPDX-License-Identifier: GPL-2.0
/* A kernel module that queues work items from all CPUs at once: each CPU has one producer, which queues one item and waits
 * for it, again and again. The queue is unbound, and its affinity scope can be set in
 * /sys/devices/virtual/workqueue/coreshard/affinity_scope.
 *
 * A number written to /sys/module/workqueue_module/parameters/run makes each producer queue so many items; the write ends
 * when all have run. Reading it tells how long that took in nanoseconds. The module cannot be unloaded.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>

struct producer {
  struct work_struct item;
  struct completion begins, done;
} ____cacheline_aligned;

static DEFINE_PER_CPU(struct producer, producers);
static struct workqueue_struct *queue;
static unsigned int items;
static s64 took_ns;
/* Written when a producer ends, while others read `items`. */
static atomic_t running ____cacheline_aligned;
static DECLARE_COMPLETION(all_done);

static void run_item(struct work_struct *item)
{
  complete(&container_of(item, struct producer, item)->done);
}

static int produce(void *word)
{
  struct producer *its = word;

  for (;;) {
    wait_for_completion_interruptible(&its->begins);
    for (unsigned int i = 0; i < items; i++) {
      queue_work(queue, &its->item);
      wait_for_completion(&its->done);
    }
    if (atomic_dec_and_test(&running))
      complete(&all_done);
  }
  return 0;
}

static int run_set(const char *text, const struct kernel_param *parameter)
{
  unsigned int cpu;
  ktime_t begun;
  int error = kstrtouint(text, 0, &items);

  if (error)
    return error;
  if (!queue)
    return -EAGAIN;
  atomic_set(&running, num_online_cpus());
  begun = ktime_get();
  for_each_online_cpu(cpu)
    complete(&per_cpu(producers, cpu).begins);
  wait_for_completion(&all_done);
  took_ns = ktime_to_ns(ktime_sub(ktime_get(), begun));
  return 0;
}

static int run_get(char *text, const struct kernel_param *parameter)
{
  return scnprintf(text, PAGE_SIZE, "%lld\n", took_ns);
}

static const struct kernel_param_ops run_ops = {.set = run_set, .get = run_get};
module_param_cb(run, &run_ops, NULL, 0600);

static int __init start(void)
{
  unsigned int cpu;
  struct workqueue_struct *its = alloc_workqueue("coreshard", WQ_UNBOUND | WQ_SYSFS, 0);

  if (!its)
    return -ENOMEM;
  for_each_online_cpu(cpu) {
    struct producer *producer = &per_cpu(producers, cpu);
    struct task_struct *thread;

    INIT_WORK(&producer->item, run_item);
    init_completion(&producer->begins);
    init_completion(&producer->done);
    thread = kthread_create_on_cpu(produce, producer, cpu, "producer/%u");
    /* The queue and the threads that were created stay: the guest is thrown away. */
    if (IS_ERR(thread))
      return PTR_ERR(thread);
    wake_up_process(thread);
  }
  queue = its;
  return 0;
}

module_init(start);
MODULE_DESCRIPTION("Work items queued by all CPUs at once");
MODULE_LICENSE("GPL");
