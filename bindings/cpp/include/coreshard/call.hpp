// Converts a function to a call: two words in the queue without an allocation, or the address of a function that does
// not fit into them.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include <coreshard/error.hpp>

namespace coreshard {

/// True for a type whose objects may be moved by copying their bytes, without running the destructor of the source.
/// Specialize it for your own types. It is true for a lambda with trivially copyable captures. Mark other lambdas by
/// relocatable().
template <class T>
struct is_relocatable : std::is_trivially_copyable<T> {};

/// A function that is marked as relocatable.
template <class F>
struct relocatable_function {
  F function;
  decltype(auto) operator()() noexcept(noexcept(std::invoke(std::move(function)))) {
    return std::invoke(std::move(function));
  }
};

template <class F>
struct is_relocatable<relocatable_function<F>> : std::true_type {};

/// Marks a function whose bytes may be copied instead of moving it. This is correct if it holds std::unique_ptr,
/// std::shared_ptr or std::vector, and wrong if it holds an object that refers to its own address, such as libstdc++'s
/// std::string or std::list.
template <class F>
relocatable_function<std::decay_t<F>> relocatable(F&& function) {
  return {std::forward<F>(function)};
}

/// True for a function that is queued without an allocation.
template <class F>
inline constexpr bool travels_in_place =
    sizeof(F) <= 2 * sizeof(std::uint64_t) && alignof(F) <= alignof(std::uint64_t) && is_relocatable<F>::value;

namespace detail {

template <class F>
constexpr auto name_characters() {
  // gcc writes "... [with F = NAME]", and clang "... [F = NAME]".
  constexpr std::string_view whole = __PRETTY_FUNCTION__;
  constexpr std::size_t begin = whole.find("F = ") + 4, end = whole.rfind(']');
  std::array<char, end - begin + 1> name{};
  for (std::size_t at = begin; at < end; ++at) name[at - begin] = whole[at];
  return name;
}

/// The name of a type, for reports.
template <class F>
inline constexpr auto name_of = name_characters<F>();

template <class F>
void run(F& function) noexcept {
  if constexpr (std::is_nothrow_invocable_v<F>) {
    std::invoke(std::move(function));
  } else {
    CORESHARD_TRY {
      std::invoke(std::move(function));
    } CORESHARD_CATCH_ALL {
      tell_of_exception();
    }
  }
}

template <class F>
struct in_place {
  static void act(std::uint64_t* words) noexcept {
    F* function = std::launder(reinterpret_cast<F*>(words));
    run(*function);
    std::destroy_at(function);
  }
  static inline constinit cs_call call = {&act, name_of<F>.data(), nullptr};
};

template <class F>
struct boxed {
  static void act(std::uint64_t* words) noexcept {
    std::unique_ptr<F> function(reinterpret_cast<F*>(static_cast<std::uintptr_t>(words[0])));
    run(*function);
  }
  static inline constinit cs_call call = {&act, name_of<F>.data(), nullptr};
};

/// Queues a function by passing its call and words to `send`. Destroys the function if `send` throws.
template <class F, class Send>
void queue_function(F&& function, Send send) {
  using Function = std::decay_t<F>;
  static_assert(std::is_invocable_v<Function>, "a queue calls functions without arguments");
  if constexpr (travels_in_place<Function>) {
    alignas(std::uint64_t) std::uint64_t words[2] = {0, 0};
    Function* made = ::new (static_cast<void*>(words)) Function(std::forward<F>(function));
    std::uint64_t copied[2];
    std::memcpy(copied, words, sizeof(copied));
    const int status = send(&in_place<Function>::call, copied[0], copied[1]);
    if (status < 0) [[unlikely]] {
      std::destroy_at(made);
      detail::raise(error(status));
    }
  } else {
    auto made = std::make_unique<Function>(std::forward<F>(function));
    checked(send(&boxed<Function>::call, static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(made.get())), 0));
    made.release();
  }
}

/// Queues a call of a member of an object that must stay in place until then. Copies and allocates nothing.
template <class Object, void (*Act)(Object&) noexcept>
struct call_of_object {
  static void act(std::uint64_t* words) noexcept {
    Act(*reinterpret_cast<Object*>(static_cast<std::uintptr_t>(words[0])));
  }
  static inline constinit cs_call call = {&act, name_of<Object>.data(), nullptr};

  static int queue(cs_workqueue* queue, Object& object) noexcept {
    return cs_queue_call(queue, &call, static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&object)), 0);
  }
};

}  // namespace detail
}  // namespace coreshard
