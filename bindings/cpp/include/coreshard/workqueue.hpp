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

/// Which CPUs share a pool of workers.
enum class scope : int {
  standard = CS_SCOPE_DEFAULT,
  cpu = CS_SCOPE_CPU,
  smt = CS_SCOPE_SMT,
  cache_shard = CS_SCOPE_CACHE_SHARD,
  cache = CS_SCOPE_CACHE,
  numa = CS_SCOPE_NUMA,
  system = CS_SCOPE_SYSTEM,
};

/// What a queue is to be: coreshard::workqueue queue("mail", {.max_active = 4});
struct options {
  coreshard::scope scope = scope::standard;
  /// How many cores a cache shard is to have; 0 for the default (8).
  unsigned shard_size = 0;
  /// Workers stay in their pod.
  bool strict = false;
  /// One item at a time, in order, across all CPUs.
  bool ordered = false;
  /// A worker is in reserve from the start, for when none can be started.
  bool reserve = false;
  /// Workers of the nice value -20: an error where that is not allowed.
  bool high_priority = false;
  /// An item runs on the CPU that it was queued on.
  bool per_cpu = false;
  /// So many items run at once, in the whole queue; 0 for no limit.
  int max_active = 0;
  /// As max_active, shared out among the nodes.
  int max_active_by_node = 0;
  /// The workers' nice value, -20 to 19.
  std::optional<int> nice = std::nullopt;
  /// The CPUs that it may use, as "0-3,8"; null for all.
  const char* cpus = nullptr;
  /// How large its workers' stacks are, at least 64 KiB; 0 for what the C library gives to threads, and 2 MiB at least.
  std::size_t stack_bytes = 0;

  /// As C has it.
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

/// Queues of the process's own.
enum class system_queue : int {
  standard = CS_SYSTEM_WORKQUEUE_KIND_DEFAULT,
  high_priority = CS_SYSTEM_WORKQUEUE_KIND_HIGHPRI,
  per_cpu = CS_SYSTEM_WORKQUEUE_KIND_PERCPU,
  power_efficient = CS_SYSTEM_WORKQUEUE_KIND_POWER_EFFICIENT,
};

/// What `co_await queue.schedule()` waits for: the coroutine goes on, on one of the queue's workers. Nothing is allocated.
///
/// The queue has the coroutine until then: one that is destroyed meanwhile ends the process, as a std::thread does that
/// nobody has joined. To be able to, let a coreshard::work resume it.
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

  /// Throws an error, inside the coroutine, where the queue takes nothing.
  void await_suspend(std::coroutine_handle<> waiting) {
    is_queued_ = true;
    const int status = cs_queue_call(queue_, &resume_call, word(waiting.address()), word(this));
    // The coroutine may be over, and this object gone, unless it was refused.
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

/// A queue that somebody else owns, who keeps it for as long as this is used.
class workqueue_ref {
public:
  explicit workqueue_ref(cs_workqueue* queue) noexcept : queue_(queue) {}

  /// A queue of the process's own, made with the first call.
  static workqueue_ref system(system_queue kind = system_queue::standard) {
    return workqueue_ref(detail::checked(cs_system_workqueue(static_cast<int>(kind))));
  }

  /// As C has it.
  cs_workqueue* get() const noexcept { return queue_; }
  const char* name() const noexcept { return cs_workqueue_name(queue_); }
  bool operator==(const workqueue_ref&) const noexcept = default;

  /// Has a function called by a worker near the CPU that the caller runs on. Allocates nothing if it travels_in_place; where
  /// it throws, the function is destroyed, uncalled.
  template <class F>
  void queue(F&& function) const {
    detail::queue_function(std::forward<F>(function), [this](cs_call* call, std::uint64_t first, std::uint64_t second) {
      return cs_queue_call(queue_, call, first, second);
    });
  }

  /// As queue(), in the pod of a CPU.
  template <class F>
  void queue_on(unsigned cpu, F&& function) const {
    detail::queue_function(std::forward<F>(function), [=, this](cs_call* call, std::uint64_t first, std::uint64_t second) {
      return cs_queue_call_on(queue_, cpu, call, first, second);
    });
  }

  /// co_await it, and the coroutine goes on, on a worker.
  schedule_awaitable schedule() const noexcept { return schedule_awaitable(queue_); }

  /// Calls a function on one of the queue's workers, and returns what it returns, or throws what it throws: there join()
  /// finds others to help. Inside one of the queue's items it is called at once.
  template <class F>
  std::invoke_result_t<F> call(F&& function) const {
    return detail::call_on(queue_, std::forward<F>(function));
  }

  /// Calls a function with parts, from a beginning to before an end, that together are the whole range, on as many workers as
  /// find time, and waits for all. Of what it throws the first is thrown here; parts that have not begun by then are left
  /// out.
  template <class F>
  void for_range(std::size_t begin, std::size_t end, F&& function) const {
    detail::for_range(queue_, begin, end, function);
  }

  /// As for_range(), with each number by itself.
  template <class F>
  void for_each(std::size_t begin, std::size_t end, F&& function) const {
    for_range(begin, end, [&function](std::size_t from, std::size_t to) {
      for (; from < to; ++from) function(from);
    });
  }

  /// Waits until all that was queued before is over.
  void flush() const { detail::checked(cs_flush_workqueue(queue_)); }
  /// Waits until nothing is left, while the queue's own items alone may queue more.
  void drain() const { detail::checked(cs_drain_workqueue(queue_)); }
  /// Lets no further item begin, until thaw().
  void freeze() const { detail::checked(cs_freeze_workqueue(queue_)); }
  void thaw() const { detail::checked(cs_thaw_workqueue(queue_)); }
  void set_max_active(int most) const { detail::checked(cs_workqueue_set_max_active(queue_, most)); }

  /// Changes the queue while it is used; whether it is ordered stays.
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

/// A queue. Its end waits until all that was queued is over; a delayed work stays pending until its time, and is dropped then,
/// if nobody cancels or requeues it.
class workqueue : public workqueue_ref {
public:
  explicit workqueue(const char* name, const options& wanted = {}) : workqueue_ref(make(name, wanted)) {}
  explicit workqueue(const std::string& name, const options& wanted = {}) : workqueue(name.c_str(), wanted) {}

  workqueue(workqueue&& other) noexcept : workqueue_ref(std::exchange(other.queue_, nullptr)) {}
  workqueue& operator=(workqueue&& other) noexcept {
    std::swap(queue_, other.queue_);
    return *this;
  }

  /// Inside one of the queue's own items, which it would wait for, it ends the process, and says so.
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
