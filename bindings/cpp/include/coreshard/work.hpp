// Works: functions that are queued again and again, now or later, and that can be waited for and cancelled.
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

/// The whole of a work is found by its head, whose address is that of C's work.
struct work_head {
  cs_work work_;
};
static_assert(std::is_standard_layout_v<work_head>);

}  // namespace detail

/// A function with its place in a queue: a member of an object, or a variable. It never runs on two workers at once, and
/// queueing it allocates nothing. Its end cancels it, and waits until it does not run.
///
/// The function takes nothing, or the work itself, by which it can queue itself again. An exception that leaves it goes to
/// the exception_handler.
template <class F>
class work : private detail::work_head {
public:
  explicit work(F given) noexcept(std::is_nothrow_move_constructible_v<F>) : function_(std::move(given)) {
    static_assert(std::is_invocable_v<F&> || std::is_invocable_v<F&, work&>, "it takes nothing, or a work&");
    cs_work_init_named(&work_, &work::act, detail::name_of<F>.data());
  }

  work(const work&) = delete;
  work& operator=(const work&) = delete;

  /// Its own function may end it, too, and touches nothing of it after that.
  ~work() {
    if (cs_cancel_work_sync(&work_) == -EDEADLK) cs_cancel_work(&work_);
  }

  /// Queues it near the CPU that the caller runs on; false if it is pending: then the run to come sees what the caller
  /// wrote before.
  bool queue(workqueue_ref on) { return detail::checked(cs_queue_work(on.get(), &work_)) == 1; }
  /// As queue(), in the pod of a CPU.
  bool queue_on(workqueue_ref on, unsigned cpu) { return detail::checked(cs_queue_work_on(on.get(), cpu, &work_)) == 1; }
  /// Queues it when a time is over.
  template <class Rep, class Period>
  bool queue_after(workqueue_ref on, std::chrono::duration<Rep, Period> delay) {
    return detail::checked(cs_queue_delayed_work(on.get(), &work_, nanoseconds(delay))) == 1;
  }
  /// As queue_after(), in the place of a queueing that has not begun; true if there was one.
  template <class Rep, class Period>
  bool requeue_after(workqueue_ref on, std::chrono::duration<Rep, Period> delay) {
    return detail::checked(cs_mod_delayed_work(on.get(), &work_, nanoseconds(delay))) == 1;
  }

  /// Waits until the latest queueing is over; false if there was nothing to wait for.
  bool flush() { return detail::checked(cs_flush_work(&work_)) == 1; }
  /// Makes a queueing that has not begun void; true if there was one. A run that goes on is not waited for.
  bool cancel() { return detail::checked(cs_cancel_work(&work_)) == 1; }
  /// As cancel(), and waits until it does not run.
  bool cancel_and_wait() { return detail::checked(cs_cancel_work_sync(&work_)) == 1; }
  /// Cancels it, and lets nobody queue it until it was enabled as often as disabled.
  bool disable() { return detail::checked(cs_disable_work(&work_)) == 1; }
  bool disable_and_wait() { return detail::checked(cs_disable_work_sync(&work_)) == 1; }
  /// True if it can be queued again.
  bool enable() { return detail::checked(cs_enable_work(&work_)) == 1; }
  bool is_pending() { return detail::checked(cs_work_pending(&work_)) == 1; }
  bool is_running() { return detail::checked(cs_work_running(&work_)) == 1; }

  F& function() noexcept { return function_; }

private:
  /// Preferred where a function can be called either way.
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

  /// Rounded up; of a time that has passed, or is none, 0; of one that nanoseconds cannot tell, the longest that they can.
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
