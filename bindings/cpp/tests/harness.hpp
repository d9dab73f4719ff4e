// A row is a function; each must end by itself, and the program within its time.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <thread>

#include <unistd.h>

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      std::fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition); \
      std::abort(); \
    } \
  } while (0)

#define CHECK_THROWS(expression, type) \
  do { \
    bool thrown_ = false; \
    try { \
      (void)(expression); \
    } catch (const type&) { \
      thrown_ = true; \
    } \
    CHECK(thrown_ && #expression); \
  } while (0)

// Waits until a condition holds; the alarm ends what never does.
#define WAIT_UNTIL(condition) \
  while (!(condition)) std::this_thread::sleep_for(std::chrono::microseconds(100))

struct row {
  const char* name;
  void (*run)();
};

#define ROW(function) \
  row { #function, function }

inline int run_rows(std::initializer_list<row> rows, int argc, char** argv) {
  const char* limit = std::getenv("CORESHARD_TEST_LIMIT");
  std::size_t run = 0;

  alarm(limit != nullptr ? static_cast<unsigned>(std::atoi(limit)) : 120);
  for (const row& one : rows) {
    if (argc > 1 && std::strcmp(argv[1], one.name) != 0) continue;
    one.run();
    std::printf("ok %s\n", one.name);
    std::fflush(stdout);
    run++;
  }
  std::printf("%zu rows hold\n", run);
  return run != 0 ? 0 : 1;
}
