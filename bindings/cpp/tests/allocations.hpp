// Counts what is allocated with new: in this thread, and in all. For the one file of a program.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

static thread_local unsigned long allocated = 0;
[[maybe_unused]] static std::atomic<unsigned long> allocated_by_all = 0;

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocated++;
  allocated_by_all++;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
