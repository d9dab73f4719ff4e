// Error reporting.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <system_error>

#include <coreshard.h>

// Without exceptions (-fno-exceptions, in the whole program), an error ends the process with its message.
#ifdef __cpp_exceptions
#define CORESHARD_TRY try
#define CORESHARD_CATCH_ALL catch (...)
#else
#define CORESHARD_TRY if constexpr (true)
#define CORESHARD_CATCH_ALL else
#endif

namespace coreshard {

/// A failed call of the library. code() is an errno of the generic category, and what() has the input and the accepted
/// values.
class error : public std::system_error {
public:
  /// Describes the latest failed call of this thread, which returned the negative `status`.
  explicit error(int status) : std::system_error(-status, std::generic_category(), cs_last_error()) {}
};

/// Called with an exception from a function without a waiting caller: a call or a work. It runs on the worker, which
/// continues afterwards.
using exception_handler = void (*)(std::exception_ptr) noexcept;

namespace detail {

[[noreturn]] inline void raise(const error& failed) {
#ifdef __cpp_exceptions
  throw failed;
#else
  std::fprintf(stderr, "coreshard: %s\n", failed.what());
  std::terminate();
#endif
}

inline int checked(int status) {
  if (status < 0) raise(error(status));
  return status;
}

template <class T>
T* checked(T* made) {
  if (made == nullptr) raise(error(-errno));
  return made;
}

// Like in the function of a std::thread, the terminate handler sees the exception.
[[noreturn]] inline void terminate_with(std::exception_ptr thrown) noexcept { std::rethrow_exception(thrown); }

inline std::atomic<exception_handler>& handler_of_process() noexcept {
  static constinit std::atomic<exception_handler> handler{&terminate_with};
  return handler;
}

inline void tell_of_exception() noexcept { handler_of_process().load()(std::current_exception()); }

}  // namespace detail

/// Sets the process's handler and returns the previous one. The default handler calls std::terminate, as for an
/// exception from the function of a std::thread.
inline exception_handler set_exception_handler(exception_handler handler) noexcept {
  return detail::handler_of_process().exchange(handler != nullptr ? handler : &detail::terminate_with);
}

}  // namespace coreshard
