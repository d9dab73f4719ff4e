// For two source files of one program: what both instantiate is the same.
#pragma once

#include <atomic>
#include <cstddef>

#include <coreshard.hpp>

inline std::atomic<int> called{0};

inline void count_a_call() { called++; }

/// Queues the same lambda, the same function and the same object in each file.
inline void queue_one_of_each(coreshard::workqueue_ref queue) {
  queue.queue([] { called++; });
  queue.queue(count_a_call);
  queue.queue([pad = std::array<std::size_t, 8>{}] { called += 1 + static_cast<int>(pad[7]); });
}

/// In the other file.
void queue_one_of_each_there(coreshard::workqueue_ref queue);
coreshard::exception_handler handler_there();
