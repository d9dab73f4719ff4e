#!/usr/bin/env bash
# Runs the tests of the library crates under the thread sanitizer and the address sanitizer, with an instrumented standard
# library: otherwise the thread sanitizer does not see the fences of Arc. Nothing is suppressed.
#
# Needs a rustc that has the standard library's source beside it, and clang's runtime of the sanitizers. Debian has
# both: rustc-web, cargo-web and rust-web-src (1.88 or later), clang-19, libclang-rt-19-dev and lld-19. If they are
# missing, they are installed if the user is root on Debian; otherwise the script fails with a message.
#
# Usage: ci/sanitizers.sh [thread|address ...]
set -euo pipefail
cd "$(dirname "$0")/.."

readonly COMPILER=${SANITIZER_RUSTC:-/usr/bin/rustc}
readonly CARGO=${SANITIZER_CARGO:-/usr/bin/cargo}
readonly PACKAGES='rustc-web cargo-web rust-web-src clang-19 libclang-rt-19-dev lld-19'

is_complete() {
  [ -x "$COMPILER" ] && [ -x "$CARGO" ] && command -v clang-19 ld.lld-19 >/dev/null &&
    [ -d "$("$COMPILER" --print sysroot)/lib/rustlib/src/rust/library" ]
}

if ! is_complete && command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
  # shellcheck disable=SC2086 # the packages are words
  apt-get update -qq && apt-get install -y -qq --no-install-recommends $PACKAGES >/dev/null
fi
if ! is_complete; then
  echo "ci/sanitizers.sh: needs $COMPILER with the standard library's source, and clang-19; on Debian: apt-get install $PACKAGES" >&2
  exit 1
fi

host=$("$COMPILER" -vV | sed -n 's/^host: //p')
readonly host
# Everything needs several times the time and the stack.
export CORESHARD_TEST_LIMIT=${CORESHARD_TEST_LIMIT:-1800} RUST_MIN_STACK=67108864
ulimit -S -s 65536

# under SANITIZER ARGUMENT...: cargo test with that sanitizer
under() {
  local sanitizer=$1
  shift
  PATH="$(dirname "$COMPILER"):$PATH" RUSTC=$COMPILER RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=target/$sanitizer-sanitizer \
    RUSTFLAGS="-Zsanitizer=$sanitizer -Zexternal-clangrt -Cunsafe-allow-abi-mismatch=sanitizer -Clinker=clang-19
      -Clink-arg=-fsanitize=$sanitizer -Clink-arg=-fuse-ld=lld-19" \
    "$CARGO" test --quiet --no-fail-fast -Zbuild-std --target "$host" "$@"
}

for sanitizer in "${@:-thread address}"; do
  # shellcheck disable=SC2086 # two words by default
  for sanitizer in $sanitizer; do
    # The simulator is left out: its threads are coroutines with separate stacks, which neither sanitizer supports.
    # The thread sanitizer ends a process that starts a thread after it was forked with threads, so only the address
    # sanitizer runs the tests of forked processes. Nor can it map its own memory if a test locks all future memory,
    # as many real-time tests do. The address sanitizer keeps some memory, so tests that measure leftover memory are
    # left out.
    case "$sanitizer" in
      thread) skipped=(--skip forked_child --skip forked_inside --skip other_process --skip wait_that_forks --skip it_forked
        --skip forked_process) ;;
      address) skipped=(--skip memory_threads_affinity_and_policy) ;;
      *) echo "ci/sanitizers.sh: $sanitizer is neither thread nor address" >&2; exit 2 ;;
    esac
    printf '\n--- %s sanitizer\n' "$sanitizer"
    # valgrind checks for leaks (ci/memcheck.sh): threads that still run at the end refer to their memory by pointers
    # into its middle.
    export ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=1
    under "$sanitizer" -p coreshard-platform -p coreshard-workqueue -p coreshard-block --lib --tests -- "${skipped[@]}"
    case "$sanitizer" in
      thread) real_time=(--lib --test host) only=(executor:: growth:: stops:: thrown::) ;;
      address) real_time=(--lib --tests) only=() ;;
    esac
    under "$sanitizer" -p coreshard-rt "${real_time[@]}" -- "${skipped[@]}" "${only[@]}"
  done
done
