// oneTBB: task_arena::enqueue for work from outside, task_group for fork and join, parallel_for.

#include "cell.hpp"

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

struct Peer {
    tbb::global_control limit;
    tbb::task_arena arena;

    // No slot is kept for the producers, which only enqueue: all of the arena's are for workers. The
    // library counts one thread more than it starts, for the caller.
    explicit Peer(unsigned workers)
        : limit(tbb::global_control::max_allowed_parallelism, workers + 1), arena(int(workers), 0) {
        arena.initialize();
    }

    template <class Work>
    void spawn(Work work) {
        arena.enqueue(std::move(work));
    }
};

struct Recursive {
    tbb::task_arena arena;

    explicit Recursive(unsigned workers) : arena(int(workers)) { arena.initialize(); }

    static u64 fib_here(u64 n) {
        if (n < 2) return n;
        u64 a, b;
        tbb::task_group group;
        group.run([&] { a = fib_here(n - 1); });
        b = fib_here(n - 2);
        group.wait();
        return a + b;
    }

    static u64 sum_here(u64 levels, u64 place) {
        if (levels == 1) return place;
        u64 a, b;
        tbb::task_group group;
        group.run([&] { a = sum_here(levels - 1, place); });
        b = sum_here(levels - 1, place + (u64(1) << (levels - 2)));
        group.wait();
        return a + b;
    }

    u64 fib(u64 n) {
        return arena.execute([=] { return fib_here(n); });
    }

    u64 sum_of_tree(u64 levels) {
        return arena.execute([=] { return sum_here(levels, 0); });
    }

    template <class Body>
    void for_each(u64* elements, size_t count, Body body) {
        arena.execute([=] {
            tbb::parallel_for(tbb::blocked_range<u64*>(elements, elements + count), [=](auto& range) {
                for (u64& element : range) body(element);
            });
        });
    }
};

int main(int argc, char** argv) { run_without_futures<Peer, Recursive>(argc, argv); }
