// co_await queue.schedule(): a coroutine goes on, on a worker, without an allocation beyond its own frame.
#include <atomic>
#include <coroutine>
#include <exception>
#include <thread>

#include <sys/wait.h>

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

// Owns its coroutine, and destroys it wherever it is.
struct owned {
  struct promise_type {
    owned get_return_object() noexcept { return owned{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
  explicit owned(std::coroutine_handle<promise_type> of) noexcept : handle(of) {}
  owned(const owned&) = delete;
  ~owned() { handle.destroy(); }
};

template <class Hop>
static owned hop_once(Hop hop, std::atomic<int>& hops) {
  co_await hop();
  hops++;
}

#ifndef WITHOUT_FORKS
static void a_coroutine_that_is_destroyed_while_it_is_queued_is_named() {
  int pipe_of_child[2];
  CHECK(pipe(pipe_of_child) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(pipe_of_child[1], STDERR_FILENO);
    std::set_terminate([] { _exit(7); });
    coreshard::workqueue queue("frozen");
    std::atomic<int> hops = 0;
    queue.freeze();
    { const owned destroyed = hop_once([&] { return queue.schedule(); }, hops); }
    _exit(1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  char said[256] = {};
  CHECK(read(pipe_of_child[0], said, sizeof(said) - 1) > 0 && std::strstr(said, "destroyed while it is queued"));
  close(pipe_of_child[0]);
  close(pipe_of_child[1]);
}
#endif

// As the README tells it: a work resumes it, and cancels that as it ends.
class cancellable_hop {
public:
  explicit cancellable_hop(coreshard::workqueue_ref queue) : queue_(queue) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) {
    work_.function().waiting = waiting;
    work_.queue(queue_);
  }
  void await_resume() const noexcept {}

private:
  struct go_on {
    std::coroutine_handle<> waiting;
    void operator()() const { waiting.resume(); }
  };
  coreshard::workqueue_ref queue_;
  coreshard::work<go_on> work_{go_on{}};
};

static void a_coroutine_that_a_work_resumes_may_be_destroyed() {
  coreshard::workqueue queue("frozen");
  std::atomic<int> hops = 0;
  auto hop = [&queue] { return cancellable_hop(queue); };
  queue.freeze();
  for (int at = 0; at < 100; ++at) const owned destroyed = hop_once(hop, hops);
  queue.thaw();
  const owned goes_on = hop_once(hop, hops);
  WAIT_UNTIL(hops == 1);
  queue.flush();
  CHECK(hops == 1);
}

int main(int argc, char** argv) {
  return run_rows({ROW(coroutines_go_on_on_workers), ROW(a_hop_allocates_nothing),
                   ROW(what_is_refused_is_thrown_in_the_coroutine), ROW(a_coroutine_that_a_work_resumes_may_be_destroyed),
#ifndef WITHOUT_FORKS
                   ROW(a_coroutine_that_is_destroyed_while_it_is_queued_is_named),
#endif
                  },
                  argc, argv);
}
