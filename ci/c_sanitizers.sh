#!/usr/bin/env bash
# bindings/c's tests in C, and bindings/cpp's in C++, under valgrind, gcc's address and undefined-behaviour sanitizers, and gcc's thread sanitizer. For
# the last one the library is compiled with it, too, the standard library included: else it would not see what the library's
# atomics order.
#
# Needs valgrind and gcc; for threads also rustc-web, cargo-web and rust-web-src (1.88 or later), as ci/sanitizers.sh does,
# which says how they are had.
#
# Usage: ci/c_sanitizers.sh [valgrind|address|thread ...]    all by default
set -euo pipefail
cd "$(dirname "$0")/.."

readonly C=bindings/c CPP=bindings/cpp TESTS='kernel_operations check more devices nulls'
export CORESHARD_TEST_LIMIT=${CORESHARD_TEST_LIMIT:-1800}
out=$($C/build.sh --debug)
readonly out
mkdir -p "$out/sanitized"

# compile TEST NAME OPTION...
compile() {
  local test=$1 name=$2
  shift 2
  gcc -std=gnu11 -O1 -g -Wall -Wextra -I$C/include -o "$out/sanitized/$name" "$C/tests/$test.c" "$@" -lpthread
}

# As compile, of bindings/cpp's tests.
compile_cpp() {
  local test=$1 name=$2
  shift 2
  g++ -std=c++20 -O1 -g -Wall -Wextra -I$CPP/include -I$C/include -o "$out/sanitized/$name" "$CPP/tests/$test.cpp" "$@" -pthread
}

under_valgrind() {
  local test
  for test in kernel_operations more devices nulls; do
    # What the parent's threads held is lost in a child that was forked, which ends with an error for it.
    compile $test $test.plain -DWITHOUT_FORKS -L"$out" -lcoreshard -Wl,-rpath,"$PWD/$out"
    # As in ci/memcheck.sh.
    valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect \
      --error-exitcode=1 --num-callers=30 --fair-sched=yes --child-silent-after-fork=yes "$out/sanitized/$test.plain" | tail -n 1
  done
}

under_address() {
  local test
  for test in $TESTS forks; do
    compile $test $test.address -fsanitize=address,undefined -fno-sanitize-recover=all -L"$out" -lcoreshard -Wl,-rpath,"$PWD/$out"
    "$out/sanitized/$test.address" | tail -n 1
  done
  for test in core coroutines; do
    compile_cpp $test $test.address -fsanitize=address,undefined -fno-sanitize-recover=all -L"$out" -lcoreshard \
      -Wl,-rpath,"$PWD/$out"
    "$out/sanitized/$test.address" | tail -n 1
  done
}

under_thread() {
  local host target=target/c-thread compiler=${SANITIZER_RUSTC:-/usr/bin/rustc} cargo=${SANITIZER_CARGO:-/usr/bin/cargo}
  if ! [ -d "$("$compiler" --print sysroot)/lib/rustlib/src/rust/library" ]; then
    echo "ci/c_sanitizers.sh: $compiler has no standard library's source; on Debian: apt-get install rustc-web cargo-web rust-web-src" >&2
    exit 1
  fi
  host=$("$compiler" -vV | sed -n 's/^host: //p')
  PATH="$(dirname "$compiler"):$PATH" RUSTC=$compiler RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$target \
    RUSTFLAGS='-Zsanitizer=thread -Zexternal-clangrt -Cunsafe-allow-abi-mismatch=sanitizer' \
    "$cargo" build --quiet -Zbuild-std --target "$host" -p coreshard-c
  # The compiler's own names for what gcc's library has under the C library's.
  cat >"$out/sanitized/names.c" <<'NAMES'
#include <string.h>
void *__tsan_memcpy(void *to, const void *from, size_t bytes) { return memcpy(to, from, bytes); }
void *__tsan_memmove(void *to, const void *from, size_t bytes) { return memmove(to, from, bytes); }
void *__tsan_memset(void *to, int byte, size_t bytes) { return memset(to, byte, bytes); }
NAMES
  gcc -c -O1 -fsanitize=thread -fno-builtin -o "$out/sanitized/names.o" "$out/sanitized/names.c"
  # The thread sanitizer ends a process that starts a thread after it was forked with threads: so the rows of forks are
  # left to the others.
  for test in kernel_operations more devices nulls; do
    compile $test $test.thread -fsanitize=thread -DWITHOUT_FORKS "$out/sanitized/names.o" \
      "$target/$host/debug/libcoreshard_c.a" -lm -ldl
    TSAN_OPTIONS=halt_on_error=1 "$out/sanitized/$test.thread" | tail -n 1
  done
  for test in core coroutines; do
    compile_cpp $test $test.thread -fsanitize=thread "$out/sanitized/names.o" "$target/$host/debug/libcoreshard_c.a" -lm -ldl
    TSAN_OPTIONS=halt_on_error=1 "$out/sanitized/$test.thread" | tail -n 1
  done
}

for sanitizer in ${*:-valgrind address thread}; do
  printf -- '--- %s\n' "$sanitizer"
  case "$sanitizer" in
    valgrind | address | thread) "under_$sanitizer" ;;
    *) echo "ci/c_sanitizers.sh: $sanitizer is none of valgrind, address, thread" >&2; exit 2 ;;
  esac
done
