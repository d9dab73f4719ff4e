#!/usr/bin/env bash
# bindings/c's tests in C, and bindings/cpp's in C++, under valgrind, gcc's and Clang's address and undefined-behaviour sanitizers,
# and gcc's thread sanitizer. For the last one, the library and the standard library are also compiled with it: otherwise it would not
# see the orderings of the library's atomics.
#
# Needs valgrind and gcc; for tests that fork, Clang 18 or later (on Debian: clang-19 and libclang-rt-19-dev), or they are skipped;
# for the thread sanitizer also rustc-web, cargo-web and rust-web-src (1.88 or later), see ci/sanitizers.sh.
#
# Usage: ci/c_sanitizers.sh [valgrind|address|thread ...]    all by default
set -euo pipefail
cd "$(dirname "$0")/.."

readonly C=bindings/c CPP=bindings/cpp
export CORESHARD_TEST_LIMIT=${CORESHARD_TEST_LIMIT:-1800}
out=$($C/build.sh --debug)
readonly out
mkdir -p "$out/sanitized"

# compile TEST NAME OPTION...: of bindings/c's tests, or else of bindings/cpp's
compile() {
  local test=$1 name=$2 cxx=(g++ -Wno-maybe-uninitialized) # which is std::optional as gcc 12's sanitizers change it
  shift 2
  if [ -e "$C/tests/$test.c" ]; then
    "${CC:-gcc}" -std=gnu11 -O1 -g -Wall -Wextra -I$C/include -o "$out/sanitized/$name" "$C/tests/$test.c" "$@" -lpthread
  else
    [ -z "${CXX:-}" ] || cxx=("$CXX")
    "${cxx[@]}" -std=c++20 -O1 -g -Wall -Wextra -I$CPP/include -I$C/include -o "$out/sanitized/$name" "$CPP/tests/$test.cpp" "$@" -pthread
  fi
}

under_valgrind() {
  local test
  for test in kernel_operations more devices nulls; do
    # Memory of the parent's threads is lost in a forked child, which would end with an error for it.
    compile $test $test.plain -DWITHOUT_FORKS -L"$out" -lcoreshard -Wl,-rpath,"$PWD/$out"
    # As in ci/memcheck.sh; a function of `more` has a frame of 24 MiB, which valgrind takes for another stack beyond --max-stackframe.
    valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect \
      --error-exitcode=1 --num-callers=30 --fair-sched=yes --max-stackframe=33554432 --child-silent-after-fork=yes "$out/sanitized/$test.plain" | tail -n 1
  done
}

# address_by NAME OPTION TEST...: the tests, compiled by CC and CXX
address_by() {
  local by=$1 option=$2 test
  shift 2
  for test; do
    compile "$test" "$test.$by" -fsanitize=address,undefined -fno-sanitize-recover=all "$option" -L"$out" -lcoreshard \
      -Wl,-rpath,"$PWD/$out"
    "$out/sanitized/$test.$by" | tail -n 1
  done
}

# The newest Clang whose address sanitizer takes its allocator's locks before a fork, and gives them back in the child
# (github.com/llvm/llvm-project, pull request 75290).
clang_for_forks() {
  local clang
  for clang in $(compgen -c clang | grep -xE 'clang(-[0-9]+)?' | sort -rVu); do
    if [ "$("$clang" -dumpversion | cut -d. -f1)" -ge 18 ] &&
      echo 'int main(void) { return 0; }' | "$clang" -fsanitize=address -o /dev/null -x c - 2>/dev/null; then
      echo "$clang"
      return
    fi
  done
}

under_address() {
  local clang
  # With gcc 12, and with Clang before 18, a thread that was in the sanitizer's allocator when another one forked holds its lock in
  # the child forever: every thread of the child that allocates then waits for it, even in a program without Coreshard. `check`
  # forks before it has threads.
  address_by gcc -DWITHOUT_FORKS kernel_operations check more devices nulls core coroutines
  clang=$(clang_for_forks)
  if [ -z "$clang" ]; then
    echo 'SKIPPED what forks, under the address sanitizer: there is no Clang of 18 or later, and of others the sanitizer itself hangs; on Debian: apt-get install clang-19 libclang-rt-19-dev'
    return
  fi
  echo "$clang, with what forks"
  CC=$clang CXX=${clang/clang/clang++} address_by clang -UWITHOUT_FORKS kernel_operations check more devices nulls forks core coroutines
}

under_thread() {
  local test host target=target/c-thread compiler=${SANITIZER_RUSTC:-/usr/bin/rustc} cargo=${SANITIZER_CARGO:-/usr/bin/cargo}
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
  # The thread sanitizer ends a process that starts a thread after it was forked with threads: so only the others run the
  # tests with forks.
  for test in kernel_operations more devices nulls core coroutines; do
    compile "$test" "$test.thread" -fsanitize=thread -DWITHOUT_FORKS "$out/sanitized/names.o" \
      "$target/$host/debug/libcoreshard_c.a" -lm -ldl
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
