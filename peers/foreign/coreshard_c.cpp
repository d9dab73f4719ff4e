// Coreshard by its interface for C: cs_queue_call.

#include "cell.hpp"

#include <coreshard.h>

struct Peer {
    cs_workqueue* queue;

    // The workers follow the CPUs that the process is bound to.
    explicit Peer(unsigned) : queue(cs_alloc_workqueue("peers", 0, 0)) {}

    // A function and two words.
    template <class Work>
    void spawn(Work work) {
        static_assert(sizeof(Work) <= 16 && std::is_trivially_copyable_v<Work>);
        static cs_call call = {&run<Work>, "an item", nullptr};
        u64 words[2] = {};
        std::memcpy(words, &work, sizeof(work));
        cs_queue_call(queue, &call, words[0], words[1]);
    }

    template <class Work>
    static void run(u64* words) {
        (*reinterpret_cast<Work*>(words))();
    }
};

int main(int argc, char** argv) {
    Cell cell(argc, argv);
    std::string workload = cell.text("workload");
    if (workload == "flood") flood<Peer>(cell);
    if (workload == "ping-pong") ping_pong<Peer>(cell);
    if (workload == "many-pools") many_pools<Peer>(cell);
    unfit("is measured from C++");
}
