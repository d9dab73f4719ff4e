// Two std::atomic in one struct.
#include <atomic>
#ifdef MENDED
#define OWN_LINE alignas(64)
#else
#define OWN_LINE
#endif

struct alignas(64) Counters {
  OWN_LINE std::atomic<long> issued;
  OWN_LINE std::atomic<long> done;
};
static Counters counters;

extern "C" void prepare() {}

extern "C" void bump(int thread, long times) {
  std::atomic<long> &mine = thread == 0 ? counters.issued : counters.done;
  for (long i = 0; i < times; i++) mine.fetch_add(1, std::memory_order_relaxed);
}
