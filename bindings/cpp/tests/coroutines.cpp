// co_await queue.schedule(): a coroutine goes on, on a worker, without an allocation beyond its own frame.
#include <atomic>
#include <coroutine>
#include <exception>
#include <thread>

#include <coreshard.hpp>

#include "allocations.hpp"
#include "harness.hpp"

// Begins at once, and frees itself at its end.
struct detached {
  struct promise_type {
    detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

static detached hop(coreshard::workqueue_ref one, coreshard::workqueue_ref other, int times, std::thread::id from,
                    std::atomic<int>& over) {
  for (int at = 0; at < times; ++at) {
    co_await (at % 2 == 0 ? one : other).schedule();
    CHECK(std::this_thread::get_id() != from);
  }
  over++;
}

static void coroutines_go_on_on_workers() {
  coreshard::workqueue one("one"), other("other", {.ordered = true});
  std::atomic<int> over = 0;
  for (int at = 0; at < 100; ++at) hop(one, other, 50, std::this_thread::get_id(), over);
  WAIT_UNTIL(over == 100);
}

static void a_hop_allocates_nothing() {
  coreshard::workqueue queue("hops");
  std::atomic<int> over = 0;
  const unsigned long before = allocated_by_all;
  hop(queue, queue, 1000, std::this_thread::get_id(), over);
  WAIT_UNTIL(over == 1);
  // The coroutine's frame.
  CHECK(allocated_by_all - before == 1);
}

static detached refused(coreshard::workqueue_ref queue, int& caught) {
  try {
    co_await queue.schedule();
    CHECK(!"the queue is being drained");
  } catch (const coreshard::error& error) {
    caught = error.code().value();
  }
}

static void what_is_refused_is_thrown_in_the_coroutine() {
  coreshard::workqueue queue("drained");
  std::atomic<bool> go_on = false;
  int caught = 0;
  queue.queue([&go_on] { WAIT_UNTIL(go_on); });
  std::thread drain([&queue] { queue.drain(); });
  // While it is drained others may queue nothing.
  while (caught == 0) {
    try {
      queue.queue([] {});
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } catch (const coreshard::error&) {
      refused(queue, caught);
    }
  }
  go_on = true;
  drain.join();
  CHECK(caught == EBUSY);
}

int main(int argc, char** argv) {
  return run_rows({ROW(coroutines_go_on_on_workers), ROW(a_hop_allocates_nothing),
                   ROW(what_is_refused_is_thrown_in_the_coroutine)},
                  argc, argv);
}
