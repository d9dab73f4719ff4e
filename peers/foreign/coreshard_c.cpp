// Coreshard as a C program uses it: a work in a structure of the program's, which its function frees.

#include "cell.hpp"

#include <coreshard.h>

template <class Work>
struct Item {
    cs_work work;
    Work call;

    static void run(cs_work* work) {
        Item* item = reinterpret_cast<Item*>(work);
        item->call();
        std::free(item);
    }
};

struct Peer {
    cs_workqueue* queue;

    // The workers follow the CPUs that the process is bound to.
    explicit Peer(unsigned) : queue(cs_alloc_workqueue("peers", 0, 0)) {}

    template <class Work>
    void spawn(Work work) {
        auto* item = static_cast<Item<Work>*>(std::malloc(sizeof(Item<Work>)));
        new (&item->call) Work(work);
        cs_work_init(&item->work, &Item<Work>::run);
        cs_queue_work(queue, &item->work);
    }
};

int main(int argc, char** argv) {
    Cell cell(argc, argv);
    run_spawning<Peer>(cell);
    unfit("is measured from C++");
}
