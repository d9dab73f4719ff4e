// A cell in C++: the same protocol, the same measuring and the same workloads as the Rust program's
// src/cell.rs, src/measure and src/workload. A peer's program gives an executor:
//
//     struct Peer {
//         explicit Peer(unsigned workers);
//         template <class Work> void spawn(Work work);
//     };
//
// and calls run_spawning<Peer>(cell), or run_without_futures<Peer, Recursive>(argc, argv) if it also forks and joins and has
// loops.

#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <linux/futex.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

using u64 = std::uint64_t;

inline u64 clock_ns(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return u64(time.tv_sec) * 1000000000u + u64(time.tv_nsec);
}

inline u64 now_ns() { return clock_ns(CLOCK_MONOTONIC); }

inline void sleep_ns(u64 ns) {
    timespec time{time_t(ns / 1000000000u), long(ns % 1000000000u)};
    nanosleep(&time, nullptr);
}

inline void sleep_until(u64 moment_ns) {
    timespec time{time_t(moment_ns / 1000000000u), long(moment_ns % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
}

inline void spin(u64 rounds) {
    u64 value = 0x9e3779b97f4a7c15u;
    asm volatile("" : "+r"(value));
    for (u64 at = 0; at < rounds; ++at) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    asm volatile("" : "+r"(value));
}

struct Usage {
    u64 cpu_ns = 0, voluntary = 0, involuntary = 0;

    static Usage now() {
        rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        return {clock_ns(CLOCK_PROCESS_CPUTIME_ID), u64(usage.ru_nvcsw), u64(usage.ru_nivcsw)};
    }
    Usage since(Usage before) const {
        return {cpu_ns - before.cpu_ns, voluntary - before.voluntary,
                involuntary - before.involuntary};
    }
};

inline u64 status_field(const char* name) {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line))
        if (line.rfind(name, 0) == 0) return std::strtoull(line.c_str() + std::strlen(name) + 1, nullptr, 10);
    return 0;
}

inline u64 cpu_ns_of_other_threads() {
    std::string own = std::to_string(syscall(SYS_gettid));
    u64 total_ns = 0;
    for (auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
        if (entry.path().filename() == own) continue;
        u64 cpu_ns = 0;
        std::ifstream(entry.path() / "schedstat") >> cpu_ns;
        total_ns += cpu_ns;
    }
    return total_ns;
}

struct alignas(128) Counter {
    std::atomic<u64> value{0};
};

// The same word as src/workload/word.rs.
class alignas(128) Word {
    std::atomic<std::uint32_t> word{0};
    enum : std::uint32_t { EMPTY, GIVEN, ASLEEP };

   public:
    void give() {
        if (word.exchange(GIVEN, std::memory_order_acq_rel) == ASLEEP)
            syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
    void take(unsigned looks) {
        for (unsigned at = 0; at < looks; ++at) {
            if (word.load(std::memory_order_acquire) == GIVEN) {
                word.store(EMPTY, std::memory_order_relaxed);
                return;
            }
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        std::uint32_t empty = EMPTY;
        if (word.compare_exchange_strong(empty, ASLEEP, std::memory_order_acq_rel))
            while (word.load(std::memory_order_acquire) == ASLEEP)
                syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, ASLEEP, nullptr, nullptr, 0);
        word.store(EMPTY, std::memory_order_relaxed);
    }
};
constexpr unsigned PATIENT = 200, SLEEPY = 0;

using Samples = std::vector<u64>;

inline Samples samples_for(u64 count) {
    Samples samples(count, 1);
    samples.clear();
    return samples;
}

inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Cell {
    std::map<std::string, std::string> values;

    Cell(int argc, char** argv) {
        for (int at = 1; at < argc; ++at) {
            std::string argument = argv[at];
            size_t equals = argument.find('=');
            if (equals == std::string::npos) fail(argument + ": not key=value");
            values[argument.substr(0, equals)] = argument.substr(equals + 1);
        }
    }
    [[noreturn]] static void fail(const std::string& reason) {
        std::fprintf(stderr, "%s\n", reason.c_str());
        std::exit(1);
    }
    std::string text(const char* key) const {
        auto found = values.find(key);
        if (found == values.end()) fail(std::string(key) + "= is missing");
        return found->second;
    }
    u64 number(const char* key) const { return std::strtoull(text(key).c_str(), nullptr, 10); }
    bool has(const char* key) const { return values.count(key) > 0; }
    u64 rounds(u64 ns) const {
        return ns == 0 ? 0 : std::max<u64>(1, number("rounds_per_ms") * ns / 1000000);
    }
};

inline void print_samples(const char* name, Samples samples) {
    if (samples.empty()) return;
    std::sort(samples.begin(), samples.end());
    std::printf("%s", name);
    for (size_t at = 0; at < samples.size();) {
        size_t next = at;
        while (next < samples.size() && samples[next] == samples[at]) ++next;
        std::printf(" %llux%zu", (unsigned long long)samples[at], next - at);
        at = next;
    }
    std::printf("\n");
}

// Subtracts the cost of two clock readings.
inline void print_calls(Samples call) {
    u64 cost_ns = UINT64_MAX;
    for (int at = 0; at < 1000; ++at) {
        u64 before_ns = now_ns();
        cost_ns = std::min(cost_ns, now_ns() - before_ns);
    }
    for (u64& value_ns : call) value_ns = value_ns > cost_ns ? value_ns - cost_ns : 0;
    print_samples("call", std::move(call));
}

inline void print_measured(u64 items, u64 elapsed_ns, Usage used, Samples call = {}, Samples end_to_end = {}) {
    std::printf("items %llu\nelapsed_ns %llu\ncpu_ns %llu\ncontext_switches %llu\n", (unsigned long long)items,
                (unsigned long long)elapsed_ns, (unsigned long long)used.cpu_ns,
                (unsigned long long)(used.voluntary + used.involuntary));
    print_calls(std::move(call));
    print_samples("end_to_end", std::move(end_to_end));
}

inline void print_figure(const char* name, double value) { std::printf("figure %s %.17g\n", name, value); }

[[noreturn]] inline void end_cell() {
    std::printf("peak_rss_bytes %llu\nend\n", (unsigned long long)(status_field("VmHWM") * 1024));
    std::fflush(stdout);
    // Does not tear the executor down, like the Rust program.
    std::_Exit(0);
}

[[noreturn]] inline void unfit(const char* reason) {
    std::printf("unfit %s\nend\n", reason);
    std::fflush(stdout);
    std::_Exit(0);
}

// Blocks threads until all of them have arrived.
class Barrier {
    std::mutex mutex;
    std::condition_variable all_there;
    size_t missing;

   public:
    explicit Barrier(size_t threads) : missing(threads) {}
    void wait() {
        std::unique_lock<std::mutex> lock(mutex);
        if (--missing == 0) all_there.notify_all();
        all_there.wait(lock, [this] { return missing == 0; });
    }
};

// src/workload/producer.rs
struct Account {
    Counter done;
    u64 items, rounds, mask, value;
    std::vector<std::atomic<u64>> ended_ns;
    std::atomic<u64> finished_ns{0};
    Word finished;

    Account(u64 items, u64 rounds, bool sampled)
        : items(items), rounds(rounds), mask(sampled ? 15 : 0), value(sampled ? 0 : 1),
          ended_ns(sampled ? (items + 15) / 16 : 0) {}

    void run_item(u64 index) {
        if (rounds > 0) spin(rounds);
        if ((index & mask) == value) ended_ns[index / 16].store(now_ns(), std::memory_order_relaxed);
        if (done.value.fetch_add(1, std::memory_order_acq_rel) + 1 == items) {
            finished_ns.store(now_ns(), std::memory_order_release);
            finished.give();
        }
    }
};

struct Pass {
    u64 elapsed_ns = 0;
    Samples call, end_to_end;
};

template <class PeerOf>
Pass pass(PeerOf peer_of, size_t producers, u64 items, u64 rounds, bool sampled) {
    u64 each = std::max<u64>(1, items / producers);
    std::vector<Account*> accounts;  // Leaked: the last items may still be on their way out.
    for (size_t at = 0; at < producers; ++at) accounts.push_back(new Account(each, rounds, sampled));
    Barrier barrier(producers);
    std::vector<u64> starts(producers);
    std::vector<Samples> calls(producers), sent(producers);
    std::vector<std::thread> threads;
    for (size_t at = 0; at < producers; ++at)
        threads.emplace_back([&, at] {
            Account* account = accounts[at];
            auto& peer = peer_of(at);
            u64 mask = account->mask, value = account->value;
            Samples call = samples_for(sampled ? (each + 15) / 16 : 0), begun = call;
            begun.reserve(call.capacity());
            barrier.wait();
            starts[at] = now_ns();
            for (u64 index = 0; index < each; ++index) {
                if ((index & mask) == value) {
                    u64 before_ns = now_ns();
                    peer.spawn([account, index] { account->run_item(index); });
                    call.push_back(now_ns() - before_ns);
                    begun.push_back(before_ns);
                } else {
                    peer.spawn([account, index] { account->run_item(index); });
                }
            }
            calls[at] = std::move(call);
            sent[at] = std::move(begun);
        });
    Pass result;
    u64 last_ns = 0;
    for (size_t at = 0; at < producers; ++at) {
        threads[at].join();
        accounts[at]->finished.take(SLEEPY);
        last_ns = std::max(last_ns, accounts[at]->finished_ns.load());
        result.call.insert(result.call.end(), calls[at].begin(), calls[at].end());
        for (size_t one = 0; one < sent[at].size(); ++one) {
            u64 ended_ns = accounts[at]->ended_ns[one].load();
            result.end_to_end.push_back(ended_ns > sent[at][one] ? ended_ns - sent[at][one] : 0);
        }
    }
    result.elapsed_ns = last_ns - *std::min_element(starts.begin(), starts.end());
    return result;
}

template <class Peer>
void flood(const Cell& cell) {
    size_t producers = cell.number("producers");
    u64 rounds = cell.rounds(cell.number("item_ns")), items = cell.number("items");
    Peer peer(cell.number("workers"));
    auto peer_of = [&](size_t) -> Peer& { return peer; };
    pass(peer_of, producers, items / 10, rounds, false);
    Usage before = Usage::now();
    Pass timed = pass(peer_of, producers, items, rounds, false);
    Usage used = Usage::now().since(before);
    Pass sampled = pass(peer_of, producers, items, rounds, true);
    print_measured(items / producers * producers, timed.elapsed_ns, used, sampled.call, sampled.end_to_end);
    end_cell();
}

template <class Peer>
void many_pools(const Cell& cell) {
    size_t components = cell.number("components");
    u64 rounds = cell.rounds(cell.number("item_ns")), items = cell.number("items");
    u64 before_threads = status_field("Threads");
    std::vector<std::unique_ptr<Peer>> peers;
    for (size_t at = 0; at < components; ++at) peers.emplace_back(new Peer(cell.number("workers")));
    auto peer_of = [&](size_t at) -> Peer& { return *peers[at]; };
    pass(peer_of, components, items / 10, rounds, false);
    Usage before = Usage::now();
    Pass timed = pass(peer_of, components, items, rounds, false);
    Usage used = Usage::now().since(before);
    u64 threads = status_field("Threads") - before_threads;
    Pass sampled = pass(peer_of, components, items, rounds, true);
    print_measured(items / components * components, timed.elapsed_ns, used, sampled.call, sampled.end_to_end);
    print_figure("threads", double(threads));
    end_cell();
}

template <class Peer>
void ping_pong(const Cell& cell) {
    size_t producers = cell.number("producers");
    u64 each = std::max<u64>(1, cell.number("items") / producers);
    Peer peer(cell.number("workers"));
    std::vector<std::unique_ptr<Word>> words;
    for (size_t at = 0; at < producers; ++at) words.emplace_back(new Word);
    Samples call, trip;
    auto round = [&](u64 items) {
        Barrier barrier(producers);
        std::vector<u64> starts(producers), ends(producers);
        std::vector<Samples> calls(producers), trips(producers);
        std::vector<std::thread> threads;
        for (size_t at = 0; at < producers; ++at)
            threads.emplace_back([&, at] {
                Word* word = words[at].get();
                Samples own_calls = samples_for(items), own_trips = samples_for(items);
                barrier.wait();
                starts[at] = now_ns();
                for (u64 one = 0; one < items; ++one) {
                    u64 before_ns = now_ns();
                    peer.spawn([word] { word->give(); });
                    u64 sent_ns = now_ns();
                    word->take(PATIENT);
                    own_calls.push_back(sent_ns - before_ns);
                    own_trips.push_back(now_ns() - before_ns);
                }
                ends[at] = now_ns();
                calls[at] = std::move(own_calls);
                trips[at] = std::move(own_trips);
            });
        for (auto& thread : threads) thread.join();
        call.clear();
        trip.clear();
        for (size_t at = 0; at < producers; ++at) {
            call.insert(call.end(), calls[at].begin(), calls[at].end());
            trip.insert(trip.end(), trips[at].begin(), trips[at].end());
        }
        return *std::max_element(ends.begin(), ends.end()) - *std::min_element(starts.begin(), starts.end());
    };
    round(std::max<u64>(1, each / 10));
    Usage before = Usage::now();
    u64 elapsed_ns = round(each);
    Usage used = Usage::now().since(before);
    print_measured(each * producers, elapsed_ns, used, call, trip);
    end_cell();
}

constexpr size_t ITEMS = 64;

// Shared by the items of a burst.
struct Burst {
    std::atomic<u64> submitted_ns[ITEMS], started_ns[ITEMS];
    std::atomic<u64> left{ITEMS};
    Word over;
};

template <class Peer>
void burst(const Cell& cell) {
    u64 rounds = cell.rounds(cell.number("item_ns"));
    u64 bursts = std::max<u64>(1, (cell.number("items") + ITEMS - 1) / ITEMS);
    Peer peer(cell.number("workers"));
    Samples call, end_to_end;
    auto one_burst = [&] {
        auto shared = std::make_shared<Burst>();
        for (size_t at = 0; at < ITEMS; ++at) {
            u64 before_ns = now_ns();
            shared->submitted_ns[at].store(before_ns);
            peer.spawn([shared, at, rounds] {
                shared->started_ns[at].store(now_ns());
                spin(rounds);
                if (shared->left.fetch_sub(1) == 1) shared->over.give();
            });
            call.push_back(now_ns() - before_ns);
        }
        shared->over.take(SLEEPY);
        return shared;
    };
    one_burst();
    call.clear();
    Usage total;
    std::vector<double> first, last;
    u64 to_last_start_ns = 0;
    for (u64 at = 0; at < bursts; ++at) {
        sleep_ns(10000000);
        Usage before = Usage::now();
        auto shared = one_burst();
        Usage used = Usage::now().since(before);
        total.cpu_ns += used.cpu_ns;
        total.voluntary += used.voluntary;
        total.involuntary += used.involuntary;
        u64 began_ns = shared->submitted_ns[0], earliest = UINT64_MAX, latest = 0;
        for (size_t item = 0; item < ITEMS; ++item) {
            u64 start = shared->started_ns[item], sent = shared->submitted_ns[item];
            earliest = std::min(earliest, start);
            latest = std::max(latest, start);
            end_to_end.push_back(start > sent ? start - sent : 0);
        }
        first.push_back(double(earliest - began_ns));
        last.push_back(double(latest - began_ns));
        to_last_start_ns += latest - began_ns;
    }
    print_measured(bursts * ITEMS, to_last_start_ns, total, call, end_to_end);
    print_figure("first_start_ns", median(first));
    print_figure("last_start_ns", median(last));
    print_figure("waits_per_burst", double(total.voluntary) / double(bursts));
    print_figure("preemptions_per_burst", double(total.involuntary) / double(bursts));
    end_cell();
}

inline void wait_for_all(const std::vector<std::atomic<u64>>& ended) {
    auto open = [](const std::atomic<u64>& end) { return end.load() == 0; };
    while (std::any_of(ended.begin(), ended.end(), open)) sleep_ns(100000);
}

inline Samples until(const Samples& starts, const std::vector<std::atomic<u64>>& ends) {
    Samples between;
    for (size_t at = 0; at < starts.size(); ++at) {
        u64 end = ends[at].load();
        between.push_back(end > starts[at] ? end - starts[at] : 0);
    }
    return between;
}

template <class Peer>
void trickle(const Cell& cell) {
    u64 items = cell.number("items");
    Peer peer(cell.number("workers"));
    Samples call, end_to_end;
    auto go = [&](u64 count) {
        auto ended = std::make_shared<std::vector<std::atomic<u64>>>(count);
        call = samples_for(count);
        Samples sent = samples_for(count);
        u64 first_ns = now_ns();
        for (u64 at = 0; at < count; ++at) {
            sleep_until(first_ns + (at + 1) * 1000000);
            u64 before_ns = now_ns();
            peer.spawn([ended, at] { (*ended)[at].store(now_ns()); });
            call.push_back(now_ns() - before_ns);
            sent.push_back(before_ns);
        }
        wait_for_all(*ended);
        end_to_end = until(sent, *ended);
    };
    go(std::min<u64>(20, items));
    Usage before = Usage::now();
    go(items);
    Usage used = Usage::now().since(before);
    sleep_ns(100000000);
    u64 idle_before_ns = cpu_ns_of_other_threads();
    sleep_ns(400000000);
    u64 idle_ns = cpu_ns_of_other_threads() - idle_before_ns;
    print_measured(items, 0, used, call, end_to_end);
    print_figure("switches_per_item", double(used.voluntary + used.involuntary) / double(items));
    print_figure("idle_cpu_ns_per_sec", double(idle_ns) / 0.4);
    end_cell();
}

template <class Peer>
void blocking(const Cell& cell) {
    u64 items = cell.number("items");
    u64 before_threads = status_field("Threads");
    Peer peer(cell.number("workers"));
    struct Shared {
        std::vector<std::atomic<u64>> ended_ns;
        std::atomic<u64> left;
        Word over;
        explicit Shared(u64 items) : ended_ns(items), left(items) {}
    };
    auto shared = std::make_shared<Shared>(items);
    Samples call, sent;
    Usage before = Usage::now();
    u64 started_ns = now_ns();
    for (u64 at = 0; at < items; ++at) {
        u64 before_ns = now_ns();
        peer.spawn([shared, at] {
            sleep_ns(50000000);
            shared->ended_ns[at].store(now_ns());
            if (shared->left.fetch_sub(1) == 1) shared->over.give();
        });
        call.push_back(now_ns() - before_ns);
        sent.push_back(before_ns);
    }
    shared->over.take(SLEEPY);
    u64 elapsed_ns = now_ns() - started_ns;
    Usage used = Usage::now().since(before);
    print_measured(items, elapsed_ns, used, call, until(sent, shared->ended_ns));
    print_figure("threads", double(status_field("Threads") - before_threads));
    end_cell();
}

template <class Peer>
void mixed(const Cell& cell) {
    u64 items = cell.number("items"), large = cell.number("large");
    u64 small_rounds = cell.rounds(1000), large_rounds = cell.rounds(500000);
    Peer peer(cell.number("workers"));
    std::atomic<bool> stop{false};
    std::atomic<u64> larges{0};
    auto ended = std::make_shared<std::vector<std::atomic<u64>>>(items);
    Samples call, sent;
    Usage before = Usage::now();
    u64 started_ns = now_ns();
    std::vector<std::thread> feeders;
    for (u64 at = 0; at < large; ++at)
        feeders.emplace_back([&] {
            auto over = std::make_shared<Word>();
            while (!stop.load()) {
                peer.spawn([over, large_rounds] {
                    spin(large_rounds);
                    over->give();
                });
                over->take(SLEEPY);
                larges.fetch_add(1);
            }
        });
    for (u64 at = 0; at < items; ++at) {
        sleep_until(started_ns + (at + 1) * 200000);
        u64 before_ns = now_ns();
        peer.spawn([ended, at, small_rounds] {
            spin(small_rounds);
            (*ended)[at].store(now_ns());
        });
        call.push_back(now_ns() - before_ns);
        sent.push_back(before_ns);
    }
    wait_for_all(*ended);
    stop.store(true);
    for (auto& feeder : feeders) feeder.join();
    u64 elapsed_ns = now_ns() - started_ns;
    Usage used = Usage::now().since(before);
    std::printf("items %llu\nelapsed_ns 0\ncontext_switches %llu\n", (unsigned long long)items,
                (unsigned long long)(used.voluntary + used.involuntary));
    print_calls(call);
    print_samples("end_to_end", until(sent, *ended));
    print_figure("large_per_sec", double(larges.load()) * 1e9 / double(elapsed_ns));
    end_cell();
}

// Runs a workload that only needs spawn. Returns if it is another workload.
template <class Peer>
void run_spawning(const Cell& cell) {
    std::string workload = cell.text("workload");
    if (workload == "flood") flood<Peer>(cell);
    if (workload == "ping-pong") ping_pong<Peer>(cell);
    if (workload == "burst") burst<Peer>(cell);
    if (workload == "trickle") trickle<Peer>(cell);
    if (workload == "blocking") blocking<Peer>(cell);
    if (workload == "many-pools") many_pools<Peer>(cell);
    if (workload == "mixed") mixed<Peer>(cell);
}

// Fork-join and parallel-for, for peers that have them: `fib`, `sum_of_tree` and `for_each` as in
// src/peer/mod.rs.
inline u64 fib_number(u64 n) {
    u64 a = 0, b = 1;
    for (; n > 0; --n) {
        u64 next = a + b;
        a = b;
        b = next;
    }
    return a;
}

template <class Peer>
void fork_join(const Cell& cell) {
    bool is_fib = cell.has("fib");
    u64 size = cell.number(is_fib ? "fib" : "tree_levels"), most = std::max<u64>(3, cell.number("items"));
    auto calls = [&](u64 size) { return is_fib ? 2 * fib_number(size + 1) - 1 : (u64(1) << size) - 1; };
    while (calls(size) > most) --size;
    Peer peer(cell.number("workers"));
    auto go = [&](u64 size) {
        u64 leaves = is_fib ? 0 : u64(1) << (size - 1);
        u64 sum = is_fib ? peer.fib(size) : peer.sum_of_tree(size);
        u64 right = is_fib ? fib_number(size) : leaves * (leaves - 1) / 2;
        if (sum != right) Cell::fail("summed up to " + std::to_string(sum));
    };
    go(size > 6 ? size - 5 : 1);
    Usage before = Usage::now();
    u64 started_ns = now_ns();
    go(size);
    u64 elapsed_ns = now_ns() - started_ns;
    print_measured(calls(size), elapsed_ns, Usage::now().since(before));
    end_cell();
}

template <class Peer>
void parallel_for(const Cell& cell) {
    constexpr u64 ROUNDS = 8;
    bool skewed = cell.number("skewed") != 0;
    size_t items = cell.number("items");
    Peer peer(cell.number("workers"));
    std::vector<u64> costs(items);
    u64 expected = items;
    for (size_t at = 0; at < items; ++at) {
        costs[at] = skewed && at >= items / 16 * 15 ? 15 * ROUNDS : ROUNDS;
        expected += costs[at];
    }
    peer.for_each(costs.data(), items / 10, [](u64&) {});
    Usage before = Usage::now();
    u64 started_ns = now_ns();
    peer.for_each(costs.data(), items, [](u64& cost) {
        spin(cost);
        cost += 1;
    });
    u64 elapsed_ns = now_ns() - started_ns;
    Usage used = Usage::now().since(before);
    u64 sum = 0;
    for (u64 cost : costs) sum += cost;
    if (sum != expected) Cell::fail("the elements add up to " + std::to_string(sum));
    print_measured(items, elapsed_ns, used);
    end_cell();
}

// All that an executor of threads runs: items, forks and joins, and loops.
template <class Peer, class Recursive>
[[noreturn]] void run_without_futures(int argc, char** argv) {
    Cell cell(argc, argv);
    run_spawning<Peer>(cell);
    if (cell.text("workload") == "fork-join") fork_join<Recursive>(cell);
    if (cell.text("workload") == "parallel-for") parallel_for<Recursive>(cell);
    unfit("has no tasks that wait without a thread");
}
