// Coreshard by its headers for C++: a function that is queued, join, for_range.

#include "cell.hpp"

#include <coreshard.hpp>

struct Peer {
    coreshard::workqueue queue;

    // The workers follow the CPUs that the process is bound to.
    explicit Peer(unsigned) : queue("peers") {}

    template <class Work>
    void spawn(Work work) {
        queue.queue(std::move(work));
    }
};

struct Recursive : Peer {
    using Peer::Peer;

    static u64 fib_here(u64 n) {
        if (n < 2) return n;
        auto [a, b] = coreshard::join([n] { return fib_here(n - 1); }, [n] { return fib_here(n - 2); });
        return a + b;
    }

    static u64 sum_here(u64 levels, u64 place) {
        if (levels == 1) return place;
        auto [a, b] = coreshard::join([=] { return sum_here(levels - 1, place); },
                                      [=] { return sum_here(levels - 1, place + (u64(1) << (levels - 2))); });
        return a + b;
    }

    u64 fib(u64 n) {
        return queue.call([=] { return fib_here(n); });
    }

    u64 sum_of_tree(u64 levels) {
        return queue.call([=] { return sum_here(levels, 0); });
    }

    template <class Body>
    void for_each(u64* elements, size_t count, Body body) {
        queue.for_range(0, count, [=](size_t begin, size_t end) {
            for (; begin < end; ++begin) body(elements[begin]);
        });
    }
};

int main(int argc, char** argv) {
    Cell cell(argc, argv);
    run_spawning<Peer>(cell);
    if (cell.text("workload") == "fork-join") fork_join<Recursive>(cell);
    if (cell.text("workload") == "parallel-for") parallel_for<Recursive>(cell);
    unfit("has no tasks of its own that wait without a thread");
}
