// Taskflow: Executor::silent_async, TaskGroup for fork and join, for_each_by_index.

#include "cell.hpp"

#include <taskflow/algorithm/for_each.hpp>
#include <taskflow/taskflow.hpp>

struct Peer {
    tf::Executor executor;

    explicit Peer(unsigned workers) : executor(workers) {}

    template <class Work>
    void spawn(Work work) {
        executor.silent_async(std::move(work));
    }
};

struct Recursive : Peer {
    using Peer::Peer;

    u64 fib_here(u64 n) {
        if (n < 2) return n;
        u64 a, b;
        auto group = executor.task_group();
        group.silent_async([&] { a = fib_here(n - 1); });
        b = fib_here(n - 2);
        group.corun();
        return a + b;
    }

    u64 sum_here(u64 levels, u64 place) {
        if (levels == 1) return place;
        u64 a, b;
        auto group = executor.task_group();
        group.silent_async([&] { a = sum_here(levels - 1, place); });
        b = sum_here(levels - 1, place + (u64(1) << (levels - 2)));
        group.corun();
        return a + b;
    }

    u64 fib(u64 n) {
        return executor.async([=, this] { return fib_here(n); }).get();
    }

    u64 sum_of_tree(u64 levels) {
        return executor.async([=, this] { return sum_here(levels, 0); }).get();
    }

    template <class Body>
    void for_each(u64* elements, size_t count, Body body) {
        tf::Taskflow flow;
        flow.for_each_by_index(tf::IndexRange<size_t>(0, count, 1), [=](tf::IndexRange<size_t> range) {
            for (size_t at = range.begin(); at < range.end(); ++at) body(elements[at]);
        });
        executor.run(flow).wait();
    }
};

int main(int argc, char** argv) { run_without_futures<Peer, Recursive>(argc, argv); }
