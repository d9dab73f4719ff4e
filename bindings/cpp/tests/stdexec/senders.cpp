// A queue as a scheduler, and as the backend of C++26's parallel_scheduler, by stdexec's algorithms.
#include <atomic>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <stdexec/execution.hpp>

#include <coreshard/execution.hpp>
#include <coreshard/replace_parallel_scheduler.hpp>

#include "../allocations.hpp"
#include "../harness.hpp"

namespace ex = stdexec;

static void senders_run_on_workers_without_an_allocation() {
  coreshard::workqueue queue("senders");
  coreshard::scheduler scheduler(queue);
  static_assert(ex::scheduler<coreshard::scheduler>);
  const auto here = std::this_thread::get_id();
  const unsigned long before = allocated;
  auto result = ex::sync_wait(ex::schedule(scheduler) | ex::then([here] { return std::this_thread::get_id() != here; }));
  CHECK(allocated == before);
  CHECK(std::get<0>(result.value()));
  CHECK(queue.stats().queued == 1);
}

static void what_is_thrown_comes_back() {
  coreshard::workqueue queue("thrown");
  CHECK_THROWS(ex::sync_wait(ex::schedule(coreshard::scheduler(queue)) |
                             ex::then([] { throw std::runtime_error("in a sender"); })),
               std::runtime_error);
}

static void many_at_once_and_on_several_queues() {
  coreshard::workqueue one("one"), other("other", {.max_active = 1});
  coreshard::scheduler first(one), second(other);
  std::atomic<int> run = 0;
  auto chain = ex::schedule(first) | ex::then([&] { run++; }) | ex::continues_on(second) | ex::then([&] { run++; });
  for (int at = 0; at < 200; ++at) ex::sync_wait(ex::when_all(chain, chain, chain));
  CHECK(run == 200 * 6);
}

static void what_is_stopped_before_does_not_run() {
  coreshard::workqueue queue("stopped");
  ex::inplace_stop_source source;
  source.request_stop();
  bool run = false;
  auto sender = ex::schedule(coreshard::scheduler(queue)) | ex::then([&run] { run = true; });
  auto result = ex::sync_wait(ex::write_env(sender, ex::prop{ex::get_stop_token, source.get_token()}));
  CHECK(!result.has_value() && !run);
}

static void the_parallel_scheduler_is_ours() {
  auto system = coreshard::workqueue_ref::system();
  const auto before = system.stats().queued;
  auto scheduler = ex::get_parallel_scheduler();
  std::vector<int> seen(10000);
  std::atomic<int> chunks = 0;
  ex::sync_wait(ex::schedule(scheduler) | ex::bulk_chunked(ex::par, seen.size(), [&](std::size_t begin, std::size_t end) {
                  chunks++;
                  for (; begin < end; ++begin) seen[begin]++;
                }));
  ex::sync_wait(ex::schedule(scheduler) | ex::bulk_unchunked(ex::par, seen.size(), [&](std::size_t at) { seen[at]++; }));
  CHECK(std::accumulate(seen.begin(), seen.end(), 0) == 20000 && chunks > 1 && chunks < 10000);
  system.flush();
  CHECK(system.stats().queued >= before + 4);
}

static void a_forked_child_has_a_parallel_scheduler_of_its_own() {
  std::atomic<int> seen = 0;
  auto scheduler = ex::get_parallel_scheduler();
  auto count = [&] {
    ex::sync_wait(ex::schedule(scheduler) | ex::bulk(ex::par, 10, [&](int) { seen++; }));
  };
  count();
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    count();
    _exit(seen == 20 ? 0 : 1);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0 && seen == 10);
}

int main(int argc, char** argv) {
  return run_rows({ROW(senders_run_on_workers_without_an_allocation), ROW(what_is_thrown_comes_back),
                   ROW(many_at_once_and_on_several_queues), ROW(what_is_stopped_before_does_not_run),
                   ROW(the_parallel_scheduler_is_ours),
                   ROW(a_forked_child_has_a_parallel_scheduler_of_its_own)},
                  argc, argv);
}
