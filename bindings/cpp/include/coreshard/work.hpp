// Works: functions that can be queued repeatedly, now or later, waited for and cancelled.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cerrno>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include <coreshard/workqueue.hpp>

namespace coreshard {
namespace detail {

/// The common head of all works. Its address is the address of the C library's work.
struct work_head {
  cs_work work_;
};
static_assert(std::is_standard_layout_v<work_head>);

}  // namespace detail

/// A function with its queueing state, for use as a member of an object or as a variable. It never runs on two workers
/// at once, and queueing it allocates nothing. Its destructor cancels it and waits until it does not run.
///
/// The function takes no argument, or the work itself, so that it can queue itself again. An exception that leaves it
/// goes to the exception_handler.
template <class F>
class work : private detail::work_head {
public:
  explicit work(F given) noexcept(std::is_nothrow_move_constructible_v<F>) : function_(std::move(given)) {
    static_assert(std::is_invocable_v<F&> || std::is_invocable_v<F&, work&>, "it takes nothing, or a work&");
    cs_work_init_named(&work_, &work::act, detail::name_of<F>.data());
  }

  work(const work&) = delete;
  work& operator=(const work&) = delete;

  /// Its own function may also destroy it, and must not access it after that.
  ~work() {
    if (cs_cancel_work_sync(&work_) == -EDEADLK) cs_cancel_work(&work_);
  }

  /// Queues it near the caller's CPU. Returns false if it is already pending; the pending run then sees the caller's
  /// earlier writes.
  bool queue(workqueue_ref on) { return detail::checked(cs_queue_work(on.get(), &work_)) == 1; }
  /// Like queue(), in the pod of a CPU.
  bool queue_on(workqueue_ref on, unsigned cpu) { return detail::checked(cs_queue_work_on(on.get(), cpu, &work_)) == 1; }
  /// Queues it after a delay.
  template <class Rep, class Period>
  bool queue_after(workqueue_ref on, std::chrono::duration<Rep, Period> delay) {
    return detail::checked(cs_queue_delayed_work(on.get(), &work_, nanoseconds(delay))) == 1;
  }
  /// Like queue_after(), but replaces a pending queueing. Returns true if there was one.
  template <class Rep, class Period>
  bool requeue_after(workqueue_ref on, std::chrono::duration<Rep, Period> delay) {
    return detail::checked(cs_mod_delayed_work(on.get(), &work_, nanoseconds(delay))) == 1;
  }

  /// Waits until the latest queueing has finished. Returns false if there was nothing to wait for.
  bool flush() { return detail::checked(cs_flush_work(&work_)) == 1; }
  /// Removes a pending queueing. Returns true if there was one. Does not wait for a current run.
  bool cancel() { return detail::checked(cs_cancel_work(&work_)) == 1; }
  /// Like cancel(), and waits until it does not run.
  bool cancel_and_wait() { return detail::checked(cs_cancel_work_sync(&work_)) == 1; }
  /// Cancels it, and rejects queueing until it has been enabled as often as disabled.
  bool disable() { return detail::checked(cs_disable_work(&work_)) == 1; }
  bool disable_and_wait() { return detail::checked(cs_disable_work_sync(&work_)) == 1; }
  /// Returns true if it can be queued again.
  bool enable() { return detail::checked(cs_enable_work(&work_)) == 1; }
  bool is_pending() { return detail::checked(cs_work_pending(&work_)) == 1; }
  bool is_running() { return detail::checked(cs_work_running(&work_)) == 1; }

  F& function() noexcept { return function_; }

private:
  /// Preferred if a function can be called either way.
  static constexpr bool takes_itself = std::is_invocable_v<F&, work&>;

  static void act(cs_work* inner) noexcept {
    work& self = static_cast<work&>(*reinterpret_cast<detail::work_head*>(inner));
    if constexpr (takes_itself ? std::is_nothrow_invocable_v<F&, work&> : std::is_nothrow_invocable_v<F&>) {
      self.run();
    } else {
      CORESHARD_TRY {
        self.run();
      } CORESHARD_CATCH_ALL {
        detail::tell_of_exception();
      }
    }
  }

  void run() {
    if constexpr (takes_itself) {
      std::invoke(function_, *this);
    } else {
      std::invoke(function_);
    }
  }

  /// Rounds up. Returns 0 for a negative duration or NaN, and the longest possible time for a duration that nanoseconds
  /// cannot represent.
  template <class Rep, class Period>
  static std::uint64_t nanoseconds(std::chrono::duration<Rep, Period> delay) {
    using std::chrono::nanoseconds;
    const std::chrono::duration<long double, std::nano> about = delay;
    if (!(about.count() > 0)) return 0;
    const auto longest = static_cast<std::uint64_t>(nanoseconds::max().count());
    if (about.count() >= static_cast<long double>(longest)) return longest;
    return static_cast<std::uint64_t>(std::chrono::ceil<nanoseconds>(delay).count());
  }

  F function_;
};

template <class F>
work(F) -> work<F>;

}  // namespace coreshard
