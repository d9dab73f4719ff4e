// Include this in one source file of a program to let std::execution::get_parallel_scheduler() use Coreshard. stdexec's
// own definition is a weak symbol, so this file's object must come before its library.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <coreshard/parallel_scheduler.hpp>

namespace STDEXEC::parallel_scheduler_replacement {

std::shared_ptr<parallel_scheduler_backend> query_parallel_scheduler_backend() {
  return coreshard::make_parallel_scheduler_backend();
}

}  // namespace STDEXEC::parallel_scheduler_replacement
