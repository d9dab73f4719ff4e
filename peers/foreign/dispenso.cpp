// dispenso: ThreadPool::schedule, TaskSet for fork and join, parallel_for.

#include "cell.hpp"

#include <dispenso/parallel_for.h>
#include <dispenso/task_set.h>
#include <dispenso/thread_pool.h>

struct Peer {
    dispenso::ThreadPool pool;

    explicit Peer(unsigned workers) : pool(workers) {}

    // Without the tag, a caller runs the item itself if the pool is busy.
    template <class Work>
    void spawn(Work work) {
        pool.schedule(std::move(work), dispenso::ForceQueuingTag());
    }
};

// The caller takes part.
struct Recursive {
    dispenso::ThreadPool pool;

    explicit Recursive(unsigned workers) : pool(workers - 1) {}

    u64 fib(u64 n) {
        if (n < 2) return n;
        u64 a, b;
        dispenso::TaskSet tasks(pool);
        tasks.schedule([&] { a = fib(n - 1); });
        b = fib(n - 2);
        tasks.wait();
        return a + b;
    }

    u64 sum_here(u64 levels, u64 place) {
        if (levels == 1) return place;
        u64 a, b;
        dispenso::TaskSet tasks(pool);
        tasks.schedule([&] { a = sum_here(levels - 1, place); });
        b = sum_here(levels - 1, place + (u64(1) << (levels - 2)));
        tasks.wait();
        return a + b;
    }

    u64 sum_of_tree(u64 levels) { return sum_here(levels, 0); }

    template <class Body>
    void for_each(u64* elements, size_t count, Body body) {
        dispenso::TaskSet tasks(pool);
        auto range = dispenso::makeChunkedRange(size_t(0), count, dispenso::ParForChunking::kAuto);
        dispenso::parallel_for(tasks, range, [=](size_t begin, size_t end) {
            for (size_t at = begin; at < end; ++at) body(elements[at]);
        });
    }
};

int main(int argc, char** argv) { run_without_futures<Peer, Recursive>(argc, argv); }
