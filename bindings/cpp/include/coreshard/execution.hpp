// A queue as a scheduler of senders and receivers (P2300), for stdexec.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <exception>
#include <utility>

#include <stdexec/execution.hpp>

#include <coreshard/workqueue.hpp>

namespace coreshard {

/// Starts work on a queue's workers: stdexec::schedule(coreshard::scheduler(queue)). The queue must outlive the work.
/// An operation allocates nothing. It completes with set_stopped if a stop was requested before it begins, and with an
/// error if the queue rejects it.
class scheduler {
  template <class Receiver>
  class operation {
  public:
    operation(Receiver receiver, workqueue_ref queue) : receiver_(std::move(receiver)), queue_(queue) {}
    operation(operation&&) = delete;

    void start() & noexcept {
      if (const int status = call::queue(queue_.get(), *this); status < 0)
        STDEXEC::set_error(std::move(receiver_), std::make_exception_ptr(error(status)));
    }

  private:
    void complete() noexcept {
      using token = STDEXEC::stop_token_of_t<STDEXEC::env_of_t<Receiver>>;
      if constexpr (!STDEXEC::unstoppable_token<token>) {
        if (STDEXEC::get_stop_token(STDEXEC::get_env(receiver_)).stop_requested())
          return STDEXEC::set_stopped(std::move(receiver_));
      }
      STDEXEC::set_value(std::move(receiver_));
    }
    static void act(operation& self) noexcept { self.complete(); }
    using call = detail::call_of_object<operation, &operation::act>;

    Receiver receiver_;
    workqueue_ref queue_;
  };

  struct environment {
    workqueue_ref queue;

    scheduler query(STDEXEC::get_completion_scheduler_t<STDEXEC::set_value_t>) const noexcept {
      return scheduler(queue);
    }
  };

  class sender {
  public:
    using sender_concept = STDEXEC::sender_tag;
    using completion_signatures =
        STDEXEC::completion_signatures<STDEXEC::set_value_t(), STDEXEC::set_stopped_t(),
                                       STDEXEC::set_error_t(std::exception_ptr)>;

    explicit sender(workqueue_ref queue) noexcept : queue_(queue) {}

    template <STDEXEC::receiver Receiver>
    operation<Receiver> connect(Receiver receiver) const {
      return {std::move(receiver), queue_};
    }
    environment get_env() const noexcept { return {queue_}; }

  private:
    workqueue_ref queue_;
  };

public:
  using scheduler_concept = STDEXEC::scheduler_tag;

  explicit scheduler(workqueue_ref queue) noexcept : queue_(queue) {}

  sender schedule() const noexcept { return sender(queue_); }
  STDEXEC::forward_progress_guarantee query(STDEXEC::get_forward_progress_guarantee_t) const noexcept {
    return STDEXEC::forward_progress_guarantee::parallel;
  }
  bool operator==(const scheduler&) const noexcept = default;

private:
  workqueue_ref queue_;
};

}  // namespace coreshard
