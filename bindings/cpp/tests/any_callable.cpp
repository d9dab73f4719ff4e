// Whatever a program may hand in, and in whatever order it ends its objects. Also compiled without exceptions, with each standard
// and compiler that there is (ci/cpp_binding.sh), and linked of two files.
#include "any_callable.hpp"

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness.hpp"

using namespace std::chrono_literals;

static bool is_aligned(const void* address, std::size_t to) { return reinterpret_cast<std::uintptr_t>(address) % to == 0; }

struct alignas(16) pair {
  std::atomic<int>* sum;
  int value;
  void operator()() const {
    CHECK(is_aligned(this, 16));
    *sum += value;
  }
};

// Knows where it is, and how many there are.
struct counted {
  static inline std::atomic<int> alive = 0;
  const counted* self = this;
  counted() { alive++; }
  counted(const counted&) : self(this) { alive++; }
  counted(counted&&) noexcept : self(this) { alive++; }
  counted& operator=(const counted&) = delete;
  ~counted() {
    CHECK(self == this);
    alive--;
  }
};

struct alignas(64) over_aligned {
  int value = 7;
};

static void captures_that_can_only_be_moved() {
  coreshard::workqueue queue("moves");
  std::atomic<int> sum = 0;
  queue.queue([box = std::make_unique<int>(1), &sum] { sum += *box; });
  queue.queue([box = std::make_unique<int>(2), pad = std::array<int, 9>{}, &sum] { sum += *box + pad[8]; });
  queue.queue(coreshard::relocatable([box = std::make_unique<int>(4), &sum] { sum += *box; }));
  queue.flush();
  CHECK(sum == 7);
  coreshard::work again([box = std::make_unique<int>(8), &sum] { sum += *box; });
  CHECK(again.queue(queue));
  again.flush();
  CHECK(sum == 15);
  auto made = queue.call([box = std::make_unique<int>(16)]() mutable { return std::move(box); });
  CHECK(*made == 16);
  auto [left, right] = coreshard::join([box = std::make_unique<int>(1)] { return *box; },
                                       [] { return std::make_unique<int>(2); });
  CHECK(left == 1 && *right == 2);
}

static void captures_that_are_aligned_to_more() {
  coreshard::workqueue queue("aligned");
  std::atomic<int> sum = 0;
  for (int at = 0; at < 16; ++at) {
    queue.queue([wide = over_aligned(), &sum] {
      CHECK(is_aligned(&wide, 64));
      sum += wide.value;
    });
  }
  // As long as what travels in its place, and aligned to more.
  static_assert(sizeof(pair) == 16 && !coreshard::travels_in_place<pair>);
  queue.queue(pair{&sum, 7});
  queue.flush();
  CHECK(sum == 17 * 7);
  coreshard::work work([wide = over_aligned(), &sum] {
    CHECK(is_aligned(&wide, 64));
    sum = wide.value;
  });
  work.queue(queue);
  work.flush();
  CHECK(sum == 7);
  CHECK(is_aligned(&work, 64) && queue.call([] { return over_aligned(); }).value == 7);
}

// An object that has its own address is moved by its constructor, and each is destroyed once.
static void captures_are_moved_and_destroyed_as_in_any_container() {
  {
    coreshard::workqueue queue("objects");
    std::atomic<int> calls = 0;
    for (int at = 0; at < 100; ++at) {
      queue.queue([object = counted(), &calls] {
        CHECK(object.self == &object);
        calls++;
      });
      queue.queue([text = std::string("short"), &calls] { calls += text == "short"; });
    }
    counted kept;
    auto lambda = [kept, &calls] { calls++; };
    queue.queue(lambda);
    queue.queue(std::move(lambda));
    queue.flush();
    CHECK(calls == 202);
  }
  CHECK(counted::alive == 0);
}

static std::atomic<int> members = 0;
struct target {
  void member() { members++; }
  void operator()() const& { members += 100; }
  void operator()() && { members++; }
};
static void function() noexcept { members++; }

static void callables_of_each_kind() {
  coreshard::workqueue queue("callables");
  target object;
  members = 0;
  queue.queue(function);
  queue.queue(&function);
  queue.queue(std::bind(&target::member, &object));
  queue.queue(std::bind_front(&target::member, &object));
  queue.queue(std::function<void()>(function));
  queue.queue(std::ref(function));
  queue.queue(object);    // called as what it is there: the queue's own, which is used up
  queue.queue([n = 1]() mutable { members += n++; });
  queue.queue([]() -> int { return members++; });  // what it returns is dropped
  queue.flush();
  CHECK(members == 9);
  coreshard::work by_name(function);
  coreshard::work by_member(std::bind_front(&target::member, &object));
  by_name.queue(queue);
  by_member.queue(queue);
  queue.flush();
  CHECK(members == 11);
  coreshard::join(function, &function);
  queue.call(function);
  const std::function<void(std::size_t, std::size_t)> count = [](std::size_t begin, std::size_t end) {
    members += static_cast<int>(end - begin);
  };
  queue.for_range(0, 10, count);
  queue.for_each(0, 10, [](auto) { members++; });
  queue.for_range(10, 0, count);
  CHECK(members == 34);
}

// A function may queue again, as it ends too.
struct queues_at_its_end {
  coreshard::workqueue_ref queue;
  std::atomic<int>* calls;
  int left;
  bool is_moved = false;
  queues_at_its_end(coreshard::workqueue_ref on, std::atomic<int>* count, int times)
      : queue(on), calls(count), left(times) {}
  queues_at_its_end(queues_at_its_end&& other) noexcept
      : queue(other.queue), calls(other.calls), left(other.left), is_moved(std::exchange(other.is_moved, true)) {}
  void operator()() { (*calls)++; }
  ~queues_at_its_end() {
    if (!is_moved && left > 0) queue.queue(queues_at_its_end(queue, calls, left - 1));
  }
};

static void functions_that_queue_as_they_end() {
  std::atomic<int> calls = 0;
  {
    coreshard::workqueue queue("chain");
    queue.queue(queues_at_its_end(queue, &calls, 20));
    queue.drain();
  }
  CHECK(calls == 21);
}

static void a_queues_end_with_works_that_are_pending() {
  std::atomic<int> calls = 0;
  auto count = [&calls] { calls++; };
  coreshard::work now(count), later(count), disabled(count);
  {
    coreshard::workqueue queue("ends");
    queue.freeze();
    for (int at = 0; at < 100; ++at) queue.queue(count);
    CHECK(now.queue(queue) && later.queue_after(queue, 1h) && !disabled.disable());
  }
  CHECK(calls == 101 && !now.is_pending() && !disabled.is_pending());
  // Until its time it can be moved to another queue, or cancelled.
  coreshard::workqueue other("other");
  CHECK(later.is_pending() && !later.queue(other) && later.requeue_after(other, 0ms) && now.queue_after(other, 1ms));
  now.flush();
  later.flush();
  CHECK(calls == 103);
}

// Members end in the opposite order of their declaration: both orders do.
static void objects_with_a_queue_and_a_work() {
  struct queue_first {
    std::atomic<int> calls = 0;
    coreshard::workqueue queue{"first"};
    coreshard::work<std::function<void()>> work{[this] { calls++; }};
  };
  struct work_first {
    std::atomic<int> calls = 0;
    coreshard::work<std::function<void()>> work{[this] { calls++; }};
    coreshard::workqueue queue{"last"};
  };
  for (int at = 0; at < 50; ++at) {
    queue_first one;
    work_first other;
    CHECK(one.work.queue(one.queue) && other.work.queue(other.queue));
    if (at % 2) {
      one.work.requeue_after(one.queue, 1h);
      other.work.requeue_after(other.queue, 1h);
    }
  }
}

static void queues_that_are_moved() {
  coreshard::workqueue one("one"), other("other");
  std::atomic<int> calls = 0;
  one.queue([&calls] { calls++; });
  coreshard::workqueue moved(std::move(one));
  moved = std::move(other);
  moved.queue([&calls] { calls++; });
  moved.flush();
  CHECK(std::strcmp(moved.name(), "other") == 0);
  std::vector<coreshard::workqueue> many;
  for (int at = 0; at < 8; ++at) many.emplace_back("one of many", coreshard::options{.max_active = 1});
  for (auto& queue : many) queue.queue([&calls] { calls++; });
  many.clear();
  WAIT_UNTIL(calls == 10);
}

static void two_files_share_what_is_inline() {
  coreshard::workqueue queue("files");
  called = 0;
  queue_one_of_each(queue);
  queue_one_of_each_there(queue);
  queue.flush();
  CHECK(called == 6);
  static const coreshard::exception_handler ours = [](std::exception_ptr) noexcept {};
  coreshard::set_exception_handler(ours);
  CHECK(handler_there() == ours);
}

#ifdef __cpp_exceptions

static std::atomic<int> told = 0;
static void note(std::exception_ptr thrown) noexcept {
  CHECK(thrown);
  told++;
}

// What throws as it is moved into the queue is not queued, and the caller's.
struct throws_when_moved {
  bool armed = false;
  throws_when_moved() = default;
  throws_when_moved(const throws_when_moved& other) : armed(other.armed) {
    if (armed) throw std::runtime_error("copied");
  }
  void operator()() {}
};

static void whatever_is_thrown() {
  coreshard::workqueue queue("throws");
  const auto before = coreshard::set_exception_handler(&note);
  told = 0;
  queue.queue([] { throw 7; });
  queue.queue([pad = std::array<long, 8>{}] { throw pad[0]; });
  queue.queue([] { throw std::make_unique<int>(7).release(); });
  queue.queue([] { std::rethrow_exception(std::make_exception_ptr(std::string("text"))); });
  coreshard::work work([] { throw "text"; });
  work.queue(queue);
  queue.flush();
  CHECK(told == 5);
  throws_when_moved armed;
  armed.armed = true;
  CHECK_THROWS(queue.queue(armed), std::runtime_error);
  queue.flush();
  CHECK_THROWS(queue.call([]() -> int { throw 7; }), int);
  CHECK_THROWS(coreshard::join([] { throw 7; }, [] { throw 8L; }), int);
  CHECK_THROWS(coreshard::join([] {}, [] { throw 8L; }), long);
  CHECK_THROWS(queue.for_each(0, 1000, [](std::size_t at) { if (at == 500) throw std::out_of_range("500"); }), std::out_of_range);
  // Inside of one another.
  CHECK_THROWS(queue.call([&queue] { queue.for_each(0, 10, [](std::size_t) { coreshard::join([] { throw 7; }, [] {}); }); }), int);
  CHECK(told == 5);
  coreshard::set_exception_handler(before);
}

static void what_is_no_queue_is_an_error() {
  coreshard::workqueue one("one"), other(std::move(one));
  CHECK_THROWS(one.queue([] {}), coreshard::error);
  CHECK_THROWS(one.queue([box = std::make_unique<int>(1), pad = std::array<int, 9>{}] { (void)*box, (void)pad; }), coreshard::error);
  CHECK_THROWS(one.flush(), coreshard::error);
  CHECK_THROWS(one.call([] {}), coreshard::error);
  CHECK_THROWS(one.for_each(0, 1, [](std::size_t) {}), coreshard::error);
  CHECK_THROWS(one.stats(), coreshard::error);
  coreshard::work work([] {});
  CHECK_THROWS(work.queue(one), coreshard::error);
  CHECK_THROWS(coreshard::workqueue("bad", {.max_active = -1}), coreshard::error);
  CHECK_THROWS(coreshard::workqueue("bad", {.nice = 99}), coreshard::error);
  CHECK_THROWS(coreshard::workqueue("bad", {.cpus = "no CPUs"}), coreshard::error);
}

#endif

int main(int argc, char** argv) {
  return run_rows(
      {
          ROW(captures_that_can_only_be_moved),
          ROW(captures_that_are_aligned_to_more),
          ROW(captures_are_moved_and_destroyed_as_in_any_container),
          ROW(callables_of_each_kind),
          ROW(functions_that_queue_as_they_end),
          ROW(a_queues_end_with_works_that_are_pending),
          ROW(objects_with_a_queue_and_a_work),
          ROW(queues_that_are_moved),
          ROW(two_files_share_what_is_inline),
#ifdef __cpp_exceptions
          ROW(whatever_is_thrown),
          ROW(what_is_no_queue_is_an_error),
#endif
      },
      argc, argv);
}
