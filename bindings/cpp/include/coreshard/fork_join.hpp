// Fork and join, loops, and blocking sections. The callers wait, so exceptions are rethrown to them.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <coreshard/error.hpp>

namespace coreshard {
namespace detail {

/// The result of a function whose caller waits for it.
template <class F>
struct awaited {
  using result = std::invoke_result_t<F>;
  static_assert(!std::is_reference_v<result>, "return a pointer, or std::ref");
  using stored = std::conditional_t<std::is_void_v<result>, std::monostate, result>;

  F& function;
  std::optional<stored> value{};
  std::exception_ptr thrown{};

  static void act(void* argument) noexcept {
    auto& self = *static_cast<awaited*>(argument);
    CORESHARD_TRY {
      if constexpr (std::is_void_v<result>) {
        std::invoke(std::forward<F>(self.function));
        self.value.emplace();
      } else {
        self.value.emplace(std::invoke(std::forward<F>(self.function)));
      }
    } CORESHARD_CATCH_ALL {
      self.thrown = std::current_exception();
    }
  }

  void rethrow() const {
    if (thrown) std::rethrow_exception(thrown);
  }
};

template <class F>
std::invoke_result_t<F> call_on(cs_workqueue* queue, F&& function) {
  awaited<F> outcome{function};
  checked(cs_call_on(queue, &awaited<F>::act, &outcome));
  outcome.rethrow();
  if constexpr (!std::is_void_v<std::invoke_result_t<F>>) return std::move(*outcome.value);
}

template <class F>
struct range_call {
  F& function;
  std::atomic<bool> has_thrown{false};
  std::exception_ptr thrown{};

  static void act(std::size_t begin, std::size_t end, void* argument) noexcept {
    auto& self = *static_cast<range_call*>(argument);
    if (self.has_thrown.load(std::memory_order_relaxed)) return;
    CORESHARD_TRY {
      self.function(begin, end);
    } CORESHARD_CATCH_ALL {
      // The caller reads it after all parts have finished.
      if (!self.has_thrown.exchange(true, std::memory_order_relaxed)) self.thrown = std::current_exception();
    }
  }
};

template <class F>
void for_range(cs_workqueue* queue, std::size_t begin, std::size_t end, F& function) {
  range_call<F> parts{function};
  checked(cs_for_range(queue, begin, end, &range_call<F>::act, &parts));
  if (parts.thrown) std::rethrow_exception(parts.thrown);
}

}  // namespace detail

/// Calls both functions, concurrently if another worker is available for the second one. Returns when both have
/// finished, with a std::pair of their results (std::monostate for void). If both throw, rethrows the first function's
/// exception.
template <class F, class G>
std::pair<typename detail::awaited<F>::stored, typename detail::awaited<G>::stored> join(F&& first, G&& second) {
  detail::awaited<F> one{first};
  detail::awaited<G> other{second};
  detail::checked(cs_join(&detail::awaited<F>::act, &one, &detail::awaited<G>::act, &other));
  one.rethrow();
  other.rethrow();
  return {std::move(*one.value), std::move(*other.value)};
}

/// While it exists, the calling item is blocked on something other than a CPU, and another worker takes its place.
class blocking_section {
public:
  blocking_section() { detail::checked(cs_blocking_begin()); }
  ~blocking_section() { cs_blocking_end(); }
  blocking_section(const blocking_section&) = delete;
  blocking_section& operator=(const blocking_section&) = delete;
};

/// Calls a function that blocks on something other than a CPU.
template <class F>
decltype(auto) blocking(F&& function) {
  blocking_section section;
  return std::invoke(std::forward<F>(function));
}

}  // namespace coreshard
