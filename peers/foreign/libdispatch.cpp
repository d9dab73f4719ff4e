// libdispatch (Grand Central Dispatch): dispatch_async_f to its global queue, whose workers it counts itself.

#include "cell.hpp"

#include <dispatch/dispatch.h>

struct Peer {
    dispatch_queue_t queue;

    explicit Peer(unsigned) : queue(dispatch_get_global_queue(DISPATCH_QUEUE_PRIORITY_DEFAULT, 0)) {}

    template <class Work>
    void spawn(Work work) {
        dispatch_async_f(queue, new Work(work), [](void* context) {
            auto* work = static_cast<Work*>(context);
            (*work)();
            delete work;
        });
    }
};

struct Slices : Peer {
    using Peer::Peer;

    template <class Body>
    void for_each(u64* elements, size_t count, Body body) {
        // dispatch_apply calls for one element at a time; its manual has the caller make strides.
        constexpr size_t STRIDE = 1024;
        struct Loop {
            u64* elements;
            size_t count;
            Body& body;
        } loop{elements, count, body};
        dispatch_apply_f((count + STRIDE - 1) / STRIDE, queue, &loop, [](void* context, size_t at) {
            auto& loop = *static_cast<Loop*>(context);
            size_t end = std::min(loop.count, (at + 1) * STRIDE);
            for (size_t one = at * STRIDE; one < end; ++one) loop.body(loop.elements[one]);
        });
    }
};

int main(int argc, char** argv) {
    Cell cell(argc, argv);
    run_spawning<Peer>(cell);
    if (cell.text("workload") == "parallel-for") parallel_for<Slices>(cell);
    unfit("has neither join nor tasks that wait without a thread");
}
