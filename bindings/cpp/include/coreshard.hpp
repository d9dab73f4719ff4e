// Coreshard for C++20: work queues whose pools of workers follow the machine's caches. bindings/cpp/README.md tells how it is
// used.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <coreshard/call.hpp>
#include <coreshard/error.hpp>
#include <coreshard/fork_join.hpp>
#include <coreshard/work.hpp>
#include <coreshard/workqueue.hpp>
