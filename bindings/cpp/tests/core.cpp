// What the headers promise, but for senders. As the tests in C: a row is a function; each must end by itself.
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <coreshard.hpp>

#include "allocations.hpp"
#include "harness.hpp"

using namespace std::chrono_literals;

template <class F>
static unsigned long allocations_of(F&& function) {
  const unsigned long before = allocated;
  function();
  return allocated - before;
}

static void functions_of_up_to_16_bytes_are_queued_without_an_allocation() {
  coreshard::workqueue queue("small");
  std::atomic<unsigned long> sum = 0;
  std::array<unsigned long, 2> pair{20, 22};
  auto one = [&sum] { sum += 1; };
  auto two = [&sum, number = 7ul] { sum += number; };
  auto three = [&sum, pair] { sum += pair[0] + pair[1]; };
  auto shared = std::make_shared<unsigned long>(100);
  auto* target = &sum;
  // A shared pointer's own 16 bytes; what it counts stays counted.
  auto owned = coreshard::relocatable([pointer = std::shared_ptr<unsigned long>(shared)] { *pointer += 1; });
  auto unsaid = [pointer = std::shared_ptr<unsigned long>(shared)] { *pointer += 1; };
  static_assert(sizeof(two) == 16 && sizeof(three) == 24 && sizeof(owned) == 16 && sizeof(unsaid) == 16);
  static_assert(coreshard::travels_in_place<decltype(two)> && coreshard::travels_in_place<decltype(owned)>);
  static_assert(!coreshard::travels_in_place<decltype(three)> && !coreshard::travels_in_place<decltype(unsaid)>);
  CHECK(allocations_of([&] { queue.queue(one); }) == 0);
  CHECK(allocations_of([&] { queue.queue(two); }) == 0);
  CHECK(allocations_of([&] { queue.queue(three); }) == 1);
  CHECK(allocations_of([&] { queue.queue(std::move(owned)); }) == 0);
  queue.flush();
  CHECK(*shared == 101 && *target == 1 + 7 + 42);
  CHECK(allocations_of([&] { queue.queue(std::move(unsaid)); }) == 1);
  queue.flush();
  CHECK(*shared == 102);
  CHECK(shared.use_count() == 1);
}

static void what_is_refused_is_destroyed_and_an_error() {
  coreshard::workqueue queue("strict");
  auto held = std::make_shared<int>(1);
  const unsigned nowhere = 60000;
  for (bool small : {true, false}) {
    try {
      if (small)
        queue.queue_on(nowhere, coreshard::relocatable([held] {}));
      else
        queue.queue_on(nowhere, [held] {});
      CHECK(!"it is no CPU of this machine");
    } catch (const coreshard::error& refused) {
      CHECK(refused.code() == std::errc::invalid_argument);
      CHECK(std::string(refused.what()).find("60000") != std::string::npos);
    }
    CHECK(held.use_count() == 1);
  }
  try {
    coreshard::workqueue none("none", {.nice = 40});
    CHECK(!"there is no such nice value");
  } catch (const coreshard::error& refused) {
    CHECK(std::string(refused.what()).find("-20 to 19") != std::string::npos);
  }
}

static std::atomic<int> told = 0;
static std::string told_of;

static void exceptions_that_nobody_waits_for_go_to_the_handler() {
  coreshard::workqueue queue("thrown");
  auto before = coreshard::set_exception_handler([](std::exception_ptr thrown) noexcept {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& exception) {
      told_of = exception.what();
      told++;
    }
  });
  queue.queue([] { throw std::runtime_error("of a call"); });
  queue.flush();
  CHECK(told == 1 && told_of == "of a call");
  coreshard::work work([] { throw std::runtime_error("of a work"); });
  work.queue(queue);
  work.flush();
  CHECK(told == 2 && told_of == "of a work");
  // It can be called in two ways, of which one throws nothing; the other is called.
  struct either_way {
    void operator()() const noexcept {}
    void operator()(coreshard::work<either_way>&) const { throw std::runtime_error("of the form that is called"); }
  };
  coreshard::work<either_way> either{either_way{}};
  either.queue(queue);
  either.flush();
  CHECK(told == 3 && told_of == "of the form that is called");
  // The worker goes on.
  std::atomic<bool> run = false;
  queue.queue([&run] { run = true; });
  queue.flush();
  CHECK(run && told == 3);
  coreshard::set_exception_handler(before);
}

static void exceptions_come_back_to_who_waits() {
  coreshard::workqueue queue("awaited");
  CHECK(queue.call([] { return 42; }) == 42);
  CHECK(*queue.call([] { return std::make_unique<int>(43); }) == 43);
  CHECK_THROWS(queue.call([]() -> int { throw std::out_of_range("call"); }), std::out_of_range);
  CHECK_THROWS(coreshard::join([] {}, []() -> int { throw std::length_error("second"); }), std::length_error);
  CHECK_THROWS(coreshard::join([] { throw std::domain_error("first"); }, [] { throw std::length_error("second"); }),
               std::domain_error);
  std::atomic<int> parts = 0;
  CHECK_THROWS(queue.for_range(0, 1000,
                               [&](std::size_t begin, std::size_t) {
                                 parts++;
                                 if (begin == 0) throw std::overflow_error("part");
                               }),
               std::overflow_error);
  CHECK(parts >= 1);
}

static unsigned long fibonacci(unsigned n) {
  if (n < 2) return n;
  auto [one, other] = coreshard::join([n] { return fibonacci(n - 1); }, [n] { return fibonacci(n - 2); });
  return one + other;
}

static void joins_and_loops_do_all_of_it() {
  coreshard::workqueue queue("sums");
  CHECK(queue.call([] { return fibonacci(18); }) == 2584);
  std::atomic<unsigned long> sum = 0;
  queue.for_each(0, 10000, [&](std::size_t at) { sum += at; });
  CHECK(sum == 49995000);
  std::vector<int> seen(1000);
  queue.for_range(0, seen.size(), [&](std::size_t begin, std::size_t end) {
    for (; begin < end; ++begin) seen[begin]++;
  });
  CHECK(std::count(seen.begin(), seen.end(), 1) == 1000);
  queue.for_range(5, 5, [](std::size_t, std::size_t) { CHECK(!"there is nothing"); });
  CHECK(queue.call([] { return coreshard::blocking([] { return 5; }); }) == 5);
}

static void works_are_queued_again_and_cancelled() {
  coreshard::workqueue queue("works");
  int runs = 0;
  coreshard::work again([&](auto& self) {
    if (++runs < 3) self.queue(queue);
  });
  CHECK(allocations_of([&] { CHECK(again.queue(queue)); }) == 0);
  queue.drain();
  CHECK(runs == 3);
  std::atomic<int> late = 0;
  coreshard::work later([&late] { late++; });
  CHECK(later.queue_after(queue, 1h) && !later.queue_after(queue, 1h) && later.is_pending());
  CHECK(later.requeue_after(queue, 1ms));
  WAIT_UNTIL(late == 1);
  CHECK(later.queue_after(queue, 1h) && later.cancel() && !later.cancel());
  // Longer than nanoseconds can tell, and none at all.
  for (auto delay : {std::chrono::hours::max(), std::chrono::hours::min()}) later.requeue_after(queue, delay);
  WAIT_UNTIL(late == 2);
  CHECK(later.queue_after(queue, std::chrono::duration<double>(INFINITY)) && later.cancel());
  CHECK(later.queue_after(queue, std::chrono::duration<double>(NAN)));
  WAIT_UNTIL(late == 3);
  CHECK(!later.disable());
  try {
    later.queue(queue);
    CHECK(!"it is disabled");
  } catch (const coreshard::error& refused) {
    CHECK(refused.code() == std::errc::operation_not_permitted);
  }
  CHECK(later.enable() && later.queue(queue));
  later.flush();
  CHECK(late == 4);
  {
    coreshard::work never([] { CHECK(!"it was cancelled"); });
    never.queue_after(queue, 1h);
  }
}

static void a_work_ends_with_its_owner() {
  coreshard::workqueue queue("owner");
  std::atomic<bool> begun = false, over = false;
  {
    coreshard::work slow([&] {
      begun = true;
      std::this_thread::sleep_for(5ms);
      over = true;
    });
    slow.queue(queue);
    WAIT_UNTIL(begun);
  }
  CHECK(over);
  // One that deletes itself.
  std::atomic<int> ended = 0;
  struct own {
    std::atomic<int>& ended;
    struct function {
      own* whole;
      void operator()() const { delete whole; }
    };
    coreshard::work<function> work{function{this}};
    ~own() { ended++; }
  };
  (new own{ended})->work.queue(queue);
  queue.drain();
  CHECK(ended == 1);
}

static void queues_have_their_options() {
  std::vector<int> order;
  {
    coreshard::workqueue queue("ordered", {.ordered = true});
    for (int at = 0; at < 100; ++at) queue.queue([&order, at] { order.push_back(at); });
    CHECK(std::string(queue.name()) == "ordered");
    auto moved = std::move(queue);
    moved.flush();
    CHECK(moved.stats().queued == 100);
  }
  CHECK(order.size() == 100 && std::is_sorted(order.begin(), order.end()));
  std::atomic<int> run = 0;
  coreshard::workqueue limited("limited", {.scope = coreshard::scope::system, .max_active = 1});
  limited.freeze();
  CHECK(allocations_of([&] { limited.queue([&run] { run++; }); }) == 0);
  limited.queue([&run] { run++; });
  std::this_thread::sleep_for(2ms);
  CHECK(run == 0);
  limited.thaw();
  limited.flush();
  CHECK(run == 2);
  limited.set_max_active(2);
  limited.change({.scope = coreshard::scope::cpu});
  coreshard::workqueue_ref::system(coreshard::system_queue::power_efficient).queue([&run] { run++; });
  WAIT_UNTIL(run == 3);
}

static void reports_have_a_functions_name() {
  struct named {
    void operator()() const {}
  };
  CHECK(std::strstr(coreshard::detail::name_of<named>.data(), "named") != nullptr);
}

int main(int argc, char** argv) {
  return run_rows({ROW(functions_of_up_to_16_bytes_are_queued_without_an_allocation),
                   ROW(what_is_refused_is_destroyed_and_an_error),
                   ROW(exceptions_that_nobody_waits_for_go_to_the_handler), ROW(exceptions_come_back_to_who_waits),
                   ROW(joins_and_loops_do_all_of_it), ROW(works_are_queued_again_and_cancelled),
                   ROW(a_work_ends_with_its_owner), ROW(queues_have_their_options), ROW(reports_have_a_functions_name)},
                  argc, argv);
}
