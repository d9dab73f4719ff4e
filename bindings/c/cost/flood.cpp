// As flood.rs: calls by the interface for C, or with -DCPP functions by that for C++.
#include <coreshard.h>
#ifdef CPP
#include <coreshard.hpp>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

namespace {

constexpr uint64_t items = 200'000;

// On separate lines.
struct alignas(256) Ran {
    std::atomic<uint64_t> items;
} ran;

void one_more(uint64_t* words) {
    asm volatile("" : : "r"(words[0]));
    ran.items.fetch_add(1, std::memory_order_release);
}

} // namespace

int main(int argc, char** argv) {
    const uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    const uint64_t rounds = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 15;
#ifdef CPP
    coreshard::workqueue queue("flood");
#else
    cs_workqueue* queue = cs_alloc_workqueue("flood", 0, 0);
    static cs_call call = {one_more, "one more", nullptr};
#endif
    std::vector<std::pair<double, double>> times;
    const std::clock_t cpu_before = std::clock();
    for (uint64_t round = 0; round < rounds; round++) {
        const auto began = std::chrono::steady_clock::now();
        const auto ns = [&] {
            return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began).count() / items;
        };
        for (uint64_t item = 0; item < items; item++) {
            for (uint64_t it = 0; it < count; it++) asm volatile("" : : "r"(it));
#ifdef CPP
            queue.queue([item]() mutable { one_more(&item); });
#else
            cs_queue_call(queue, &call, item, 0);
#endif
        }
        const double queued = ns();
#ifdef CPP
        queue.flush();
#else
        cs_flush_workqueue(queue);
#endif
        times.emplace_back(ns(), queued);
    }
    const double cpu_ns = static_cast<double>(std::clock() - cpu_before) * (1e9 / CLOCKS_PER_SEC);
    std::sort(times.begin(), times.end());
    const auto [all, queued] = times[times.size() / 2];
    std::printf("%.1f %.1f %.1f\n", all, queued, cpu_ns / static_cast<double>(items * rounds));
}
