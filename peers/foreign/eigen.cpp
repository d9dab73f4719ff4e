// Eigen's ThreadPool: the one that TensorFlow and ONNX Runtime use. Its queues hold 1,024 items; when
// they are full, Schedule runs the item on the caller's thread.

#include "cell.hpp"

#define EIGEN_USE_THREADS
#include <unsupported/Eigen/CXX11/ThreadPool>

struct Peer {
    Eigen::ThreadPool pool;

    explicit Peer(unsigned workers) : pool(int(workers)) {}

    template <class Work>
    void spawn(Work work) {
        pool.Schedule(std::move(work));
    }
};

int main(int argc, char** argv) {
    Cell cell(argc, argv);
    run_spawning<Peer>(cell);
    unfit("has neither join nor tasks that wait without a thread");
}
