// The replaceable backend of C++26's parallel_scheduler on a queue, for stdexec. replace_parallel_scheduler.hpp
// installs it.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <type_traits>

#include <stdexec/execution.hpp>

#include <coreshard/workqueue.hpp>

namespace coreshard {

/// The backend of std::execution::get_parallel_scheduler(). It allocates only for bulk operations with less storage
/// than they need (40 bytes; stdexec provides 152).
class parallel_scheduler_backend final : public STDEXEC::parallel_scheduler_replacement::parallel_scheduler_backend {
  using receiver = STDEXEC::parallel_scheduler_replacement::receiver_proxy;
  using bulk_receiver = STDEXEC::parallel_scheduler_replacement::bulk_item_receiver_proxy;

public:
  /// Uses the process's own queue of the default scope. After a fork, this is the child's queue.
  parallel_scheduler_backend() noexcept = default;

  /// Uses a queue, which must outlive the backend.
  explicit parallel_scheduler_backend(workqueue_ref queue) noexcept : queue_(queue.get()) {}

  void schedule(receiver& waiting, std::span<std::byte>) noexcept override {
    if (is_stopped(waiting)) return waiting.set_stopped();
    if (const int status = call::queue(queue(), waiting); status < 0) fail(waiting, status);
  }

  void schedule_bulk_chunked(std::size_t count, bulk_receiver& waiting, std::span<std::byte> room) noexcept override {
    begin<true>(count, waiting, room);
  }

  void schedule_bulk_unchunked(std::size_t count, bulk_receiver& waiting, std::span<std::byte> room) noexcept override {
    begin<false>(count, waiting, room);
  }

private:
  /// Returns null if there is no queue. The library then rejects the call with the reason.
  cs_workqueue* queue() const noexcept {
    return queue_ != nullptr ? queue_ : cs_system_workqueue(CS_SYSTEM_WORKQUEUE_KIND_DEFAULT);
  }

  static bool is_stopped(const receiver& waiting) noexcept {
    const auto token = waiting.try_query<STDEXEC::inplace_stop_token>(STDEXEC::get_stop_token);
    return token && token->stop_requested();
  }

  static void fail(receiver& waiting, int status) noexcept { waiting.set_error(std::make_exception_ptr(error(status))); }

  static void complete(receiver& waiting) noexcept {
    if (is_stopped(waiting)) return waiting.set_stopped();
    waiting.set_value();
  }
  using call = detail::call_of_object<receiver, &parallel_scheduler_backend::complete>;

  /// A bulk operation in the storage that its caller provides, or else on the heap.
  template <bool IsChunked>
  struct bulk {
    cs_workqueue* queue;
    std::size_t count;
    bulk_receiver& waiting;
    bool is_on_heap;

    static void run(bulk& self) noexcept {
      // The completion returns the storage to the caller.
      const bulk taken = self;
      if (taken.is_on_heap) delete &self;
      const int status = is_stopped(taken.waiting) || taken.count == 0
                             ? 0
                             : cs_for_range(taken.queue, 0, taken.count, &execute, &taken.waiting);
      if (status < 0) return fail(taken.waiting, status);
      complete(taken.waiting);
    }

    static void execute(std::size_t begin, std::size_t end, void* argument) noexcept {
      auto& waiting = *static_cast<bulk_receiver*>(argument);
      if constexpr (IsChunked) {
        waiting.execute(begin, end);
      } else {
        for (; begin < end; ++begin) waiting.execute(begin, begin + 1);
      }
    }
    using call = detail::call_of_object<bulk, &bulk::run>;
  };

  template <bool IsChunked>
  void begin(std::size_t count, bulk_receiver& waiting, std::span<std::byte> room) noexcept {
    using operation = bulk<IsChunked>;
    void* place = room.data();
    std::size_t bytes = room.size();
    const bool fits = std::align(alignof(operation), sizeof(operation), place, bytes) != nullptr;
    operation* made = fits ? ::new (place) operation{queue(), count, waiting, false}
                           : new (std::nothrow) operation{queue(), count, waiting, true};
    if (made == nullptr) return waiting.set_error(std::make_exception_ptr(std::bad_alloc()));
    if (const int status = operation::call::queue(made->queue, *made); status < 0) {
      if (!fits) delete made;
      fail(waiting, status);
    }
  }

  cs_workqueue* queue_ = nullptr;
};

/// Returns the backend on the process's own queue of the default scope.
inline std::shared_ptr<STDEXEC::parallel_scheduler_replacement::parallel_scheduler_backend>
make_parallel_scheduler_backend() {
  static const auto made = std::make_shared<parallel_scheduler_backend>();
  return made;
}

}  // namespace coreshard
