// How errors are told.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <system_error>

#include <coreshard.h>

// Without exceptions (-fno-exceptions, in the whole program), an error ends the process, with its sentence.
#ifdef __cpp_exceptions
#define CORESHARD_TRY try
#define CORESHARD_CATCH_ALL catch (...)
#else
#define CORESHARD_TRY if constexpr (true)
#define CORESHARD_CATCH_ALL else
#endif

namespace coreshard {

/// A call of the library that failed: code() is an errno of the generic category, and what() tells what was given and what
/// is allowed.
class error : public std::system_error {
public:
  /// Of the latest call of this thread that failed; it has returned `status`, which is below 0.
  explicit error(int status) : std::system_error(-status, std::generic_category(), cs_last_error()) {}
};

/// Told of an exception that left a function which nobody waits for: a call, a work. Called on the worker, which goes on
/// when it comes back.
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

// As a std::thread's function: the terminate handler sees the exception.
[[noreturn]] inline void terminate_with(std::exception_ptr thrown) noexcept { std::rethrow_exception(thrown); }

inline std::atomic<exception_handler>& handler_of_process() noexcept {
  static constinit std::atomic<exception_handler> handler{&terminate_with};
  return handler;
}

inline void tell_of_exception() noexcept { handler_of_process().load()(std::current_exception()); }

}  // namespace detail

/// Sets the process's handler; returns the one before. The first one ends the process by std::terminate, as an exception
/// that leaves a std::thread's function does.
inline exception_handler set_exception_handler(exception_handler handler) noexcept {
  return detail::handler_of_process().exchange(handler != nullptr ? handler : &detail::terminate_with);
}

}  // namespace coreshard
