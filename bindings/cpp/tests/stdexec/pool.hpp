// stands for exec::static_thread_pool in its examples: as many workers, on a queue.
#pragma once

#include <cstdint>

#include <coreshard/execution.hpp>

struct coreshard_pool {
  explicit coreshard_pool(int threads) : threads_(configured(threads)) {}

  coreshard::scheduler get_scheduler() const noexcept { return coreshard::scheduler(queue_); }
  // The pool of the CPU that the caller runs on is what the other one's thread or node is.
  coreshard::scheduler get_scheduler_on_thread(std::size_t) const noexcept { return get_scheduler(); }
  template <class Mask>
  coreshard::scheduler get_constrained_scheduler(const Mask*) const noexcept { return get_scheduler(); }
  std::uint32_t available_parallelism() const noexcept { return threads_; }

private:
  static std::uint32_t configured(int threads) {
    cs_config wanted = CS_CONFIG_INIT;
    wanted.workers = static_cast<unsigned>(threads);
    // As many threads as the other pool has, also where an item takes long.
    wanted.cpu_intensive_ns = UINT64_MAX;
    coreshard::detail::checked(cs_configure(&wanted));
    return static_cast<std::uint32_t>(threads);
  }

  std::uint32_t threads_;
  coreshard::workqueue queue_{"pool"};
};
