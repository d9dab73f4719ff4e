// Asio's thread_pool, by post.

#include "cell.hpp"

#define ASIO_STANDALONE
#include <asio.hpp>

struct Peer {
    asio::thread_pool pool;

    explicit Peer(unsigned workers) : pool(workers) {}

    template <class Work>
    void spawn(Work work) {
        asio::post(pool, std::move(work));
    }
};

int main(int argc, char** argv) {
    Cell cell(argc, argv);
    run_spawning<Peer>(cell);
    unfit("has neither join nor parallel-for; its coroutines serve input and output");
}
