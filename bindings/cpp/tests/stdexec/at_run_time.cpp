// Has stdexec's own tests work by our backend, and their tests of replacement by theirs; tells at the end how much it did.
#include <cstdio>

#include <coreshard/parallel_scheduler.hpp>

namespace {

struct used {
  used() {
    using namespace STDEXEC::parallel_scheduler_replacement;
    set_parallel_scheduler_backend(
        []() -> std::shared_ptr<parallel_scheduler_backend> { return coreshard::make_parallel_scheduler_backend(); });
  }
  ~used() {
    auto counts = coreshard::workqueue_ref::system().stats();
    std::printf("coreshard's queue had %llu items\n", static_cast<unsigned long long>(counts.queued));
  }
} used;

}  // namespace
