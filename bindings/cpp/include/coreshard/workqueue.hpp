// Queues.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <coroutine>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <coreshard/call.hpp>
#include <coreshard/fork_join.hpp>

namespace coreshard {

/// The CPUs that share a pool of workers.
enum class scope : int {
  standard = CS_SCOPE_DEFAULT,
  cpu = CS_SCOPE_CPU,
  smt = CS_SCOPE_SMT,
  cache_shard = CS_SCOPE_CACHE_SHARD,
  cache = CS_SCOPE_CACHE,
  numa = CS_SCOPE_NUMA,
  system = CS_SCOPE_SYSTEM,
};

/// The options of a queue: coreshard::workqueue queue("mail", {.max_active = 4});
struct options {
  coreshard::scope scope = scope::standard;
  /// Target number of cores in a cache shard; 0 for the default (8).
  unsigned shard_size = 0;
  /// Whether workers stay in their pod.
  bool strict = false;
  /// Whether items run one at a time and in order, across all CPUs.
  bool ordered = false;
  /// Whether a worker is in reserve from the start, for the case that no worker can be started.
  bool reserve = false;
  /// Whether workers have the nice value -20. Creation fails if this is not permitted.
  bool high_priority = false;
  /// Whether an item runs on the CPU that it was queued on.
  bool per_cpu = false;
  /// Maximum number of items that run at once in the whole queue; 0 for no limit.
  int max_active = 0;
  /// Like max_active, divided among the nodes.
  int max_active_by_node = 0;
  /// The workers' nice value, -20 to 19.
  std::optional<int> nice = std::nullopt;
  /// The CPUs that it may use, such as "0-3,8"; null for all.
  const char* cpus = nullptr;
  /// The size of its workers' stacks, at least 64 KiB. 0 means the C library's default, but at least 2 MiB.
  std::size_t stack_bytes = 0;

  /// Returns the C library's attributes.
  cs_workqueue_attrs attributes() const noexcept {
    cs_workqueue_attrs made = CS_WORKQUEUE_ATTRS_INIT;
    made.flags = (ordered ? CS_WQ_ORDERED : 0u) | (reserve ? CS_WQ_MEM_RECLAIM : 0u) |
                 (high_priority ? CS_WQ_HIGHPRI : 0u) | (per_cpu ? CS_WQ_PERCPU : 0u);
    made.scope = static_cast<int>(scope);
    made.shard_size = shard_size;
    made.strict = strict;
    made.max_active = max_active;
    made.max_active_by_node = max_active_by_node;
    made.has_nice = nice.has_value();
    made.nice = nice.value_or(0);
    made.cpus = cpus;
    made.stack_bytes = stack_bytes;
    return made;
  }
};

/// Queues that belong to the process.
enum class system_queue : int {
  standard = CS_SYSTEM_WORKQUEUE_KIND_DEFAULT,
  high_priority = CS_SYSTEM_WORKQUEUE_KIND_HIGHPRI,
  per_cpu = CS_SYSTEM_WORKQUEUE_KIND_PERCPU,
  power_efficient = CS_SYSTEM_WORKQUEUE_KIND_POWER_EFFICIENT,
};

/// The result of queue.schedule(): `co_await` it to resume the coroutine on one of the queue's workers. Allocates
/// nothing.
///
/// The queue holds the coroutine until then. Destroying it meanwhile ends the process, like destroying a std::thread
/// without joining it. To be able to destroy it, let a coreshard::work resume it.
class [[nodiscard]] schedule_awaitable {
public:
  explicit schedule_awaitable(cs_workqueue* queue) noexcept : queue_(queue) {}
  schedule_awaitable(const schedule_awaitable&) = delete;
  schedule_awaitable& operator=(const schedule_awaitable&) = delete;
  ~schedule_awaitable() {
    if (is_queued_) [[unlikely]] {
      std::fprintf(stderr, "coreshard: a coroutine is destroyed while it is queued; let it go on, or let a coreshard::work resume it\n");
      std::terminate();
    }
  }

  bool await_ready() const noexcept { return false; }

  /// Throws an error inside the coroutine if the queue rejects it.
  void await_suspend(std::coroutine_handle<> waiting) {
    is_queued_ = true;
    const int status = cs_queue_call(queue_, &resume_call, word(waiting.address()), word(this));
    // Unless it was rejected, the coroutine may have finished and destroyed this object.
    if (status < 0) [[unlikely]] {
      is_queued_ = false;
      detail::raise(error(status));
    }
  }

  void await_resume() const noexcept {}

private:
  static std::uint64_t word(const void* address) noexcept { return reinterpret_cast<std::uintptr_t>(address); }
  static void* address(std::uint64_t word) noexcept { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(word)); }

  static void resume(std::uint64_t* words) noexcept {
    static_cast<schedule_awaitable*>(address(words[1]))->is_queued_ = false;
    std::coroutine_handle<>::from_address(address(words[0])).resume();
  }
  static inline constinit cs_call resume_call = {&resume, "a coroutine", nullptr};

  cs_workqueue* queue_;
  bool is_queued_ = false;
};

/// A non-owning reference to a queue. The owner must keep the queue until its last use.
class workqueue_ref {
public:
  explicit workqueue_ref(cs_workqueue* queue) noexcept : queue_(queue) {}

  /// Returns a queue of the process, which the first call creates.
  static workqueue_ref system(system_queue kind = system_queue::standard) {
    return workqueue_ref(detail::checked(cs_system_workqueue(static_cast<int>(kind))));
  }

  /// Returns the C library's queue.
  cs_workqueue* get() const noexcept { return queue_; }
  const char* name() const noexcept { return cs_workqueue_name(queue_); }
  bool operator==(const workqueue_ref&) const noexcept = default;

  /// Lets a worker near the caller's CPU call a function. Allocates nothing if the function travels_in_place. If it
  /// throws, the function is destroyed without a call.
  template <class F>
  void queue(F&& function) const {
    detail::queue_function(std::forward<F>(function), [this](cs_call* call, std::uint64_t first, std::uint64_t second) {
      return cs_queue_call(queue_, call, first, second);
    });
  }

  /// Like queue(), in the pod of a CPU.
  template <class F>
  void queue_on(unsigned cpu, F&& function) const {
    detail::queue_function(std::forward<F>(function), [=, this](cs_call* call, std::uint64_t first, std::uint64_t second) {
      return cs_queue_call_on(queue_, cpu, call, first, second);
    });
  }

  /// `co_await` the result to resume the coroutine on a worker.
  schedule_awaitable schedule() const noexcept { return schedule_awaitable(queue_); }

  /// Calls a function on one of the queue's workers, where join() can share work with others, and returns its result or
  /// rethrows its exception. Inside one of the queue's items, it calls the function directly.
  template <class F>
  std::invoke_result_t<F> call(F&& function) const {
    return detail::call_on(queue_, std::forward<F>(function));
  }

  /// Divides a range into parts, calls a function with the begin and end of each part on all available workers, and
  /// waits for all. Rethrows the first exception; parts that have not begun by then are skipped.
  template <class F>
  void for_range(std::size_t begin, std::size_t end, F&& function) const {
    detail::for_range(queue_, begin, end, function);
  }

  /// Like for_range(), but calls the function for each index.
  template <class F>
  void for_each(std::size_t begin, std::size_t end, F&& function) const {
    for_range(begin, end, [&function](std::size_t from, std::size_t to) {
      for (; from < to; ++from) function(from);
    });
  }

  /// Waits until all previously queued items have finished.
  void flush() const { detail::checked(cs_flush_workqueue(queue_)); }
  /// Waits until the queue is empty. Meanwhile only its own items may queue more.
  void drain() const { detail::checked(cs_drain_workqueue(queue_)); }
  /// Starts no further items until thaw().
  void freeze() const { detail::checked(cs_freeze_workqueue(queue_)); }
  void thaw() const { detail::checked(cs_thaw_workqueue(queue_)); }
  void set_max_active(int most) const { detail::checked(cs_workqueue_set_max_active(queue_, most)); }

  /// Changes the options of a queue in use, except `ordered`.
  void change(const options& wanted) const {
    const cs_workqueue_attrs attributes = wanted.attributes();
    detail::checked(cs_change_workqueue(queue_, &attributes));
  }

  struct cs_workqueue_stats stats() const {
    struct cs_workqueue_stats counts{};
    detail::checked(::cs_workqueue_stats(queue_, &counts, sizeof(counts)));
    return counts;
  }

protected:
  cs_workqueue* queue_;
};

/// A queue. Its destructor waits until all queued items have finished. A delayed work stays pending until its time, and
/// is then dropped unless it is cancelled or requeued.
class workqueue : public workqueue_ref {
public:
  explicit workqueue(const char* name, const options& wanted = {}) : workqueue_ref(make(name, wanted)) {}
  explicit workqueue(const std::string& name, const options& wanted = {}) : workqueue(name.c_str(), wanted) {}

  workqueue(workqueue&& other) noexcept : workqueue_ref(std::exchange(other.queue_, nullptr)) {}
  workqueue& operator=(workqueue&& other) noexcept {
    std::swap(queue_, other.queue_);
    return *this;
  }

  /// Inside one of the queue's own items it would wait for itself, so it reports that and ends the process.
  ~workqueue() {
    if (queue_ != nullptr && cs_destroy_workqueue(queue_) < 0) {
      std::fprintf(stderr, "coreshard: a workqueue cannot be destroyed: %s\n", cs_last_error());
      std::terminate();
    }
  }

private:
  static cs_workqueue* make(const char* name, const options& wanted) {
    const cs_workqueue_attrs attributes = wanted.attributes();
    return detail::checked(cs_alloc_workqueue_attrs(name, &attributes));
  }
};

}  // namespace coreshard
