#!/usr/bin/env bash
# Builds the whole workspace for aarch64, and runs the tests of its libraries and a short `coreshard bench queue` there,
# under emulation (qemu-user) on other machines. This finds mistakes in machine-dependent code: kernel structures and
# constants, system calls, alignment, C types, code for one architecture. It does not find mistakes in memory order
# (docs/results/soundness.md): the model checker does (ci/loom.sh).
#
# Needs aarch64-linux-gnu-gcc as the linker, qemu-aarch64, and the standard library for aarch64. The latter comes from
# rustup, or is built from Debian's source (rustc-web, cargo-web and rust-web-src, 1.88 or later). Missing packages are
# installed if the user is root on Debian. The kernel must be able to start emulated programs, since some start
# themselves: so the emulator is registered (binfmt_misc) in a new user namespace, which needs Linux 6.7.
#
# Usage: ci/aarch64.sh [PACKAGE...]    the packages whose tests run; all libraries and a short benchmark by default.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TARGET=aarch64-unknown-linux-gnu
readonly LIBRARIES='coreshard-topology coreshard-platform coreshard-workqueue coreshard-block coreshard-rt
  coreshard-sim coreshard-results coreshard-bench coreshard-report coreshard'
readonly ROOT=${AARCH64_ROOT:-/usr/aarch64-linux-gnu}
readonly LOGS=target/aarch64/logs

export CARGO_TARGET_DIR=target/aarch64 CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# The emulator links and loads each test program: without types and variables, these are much smaller.
export CARGO_PROFILE_DEV_DEBUG=line-tables-only CARGO_INCREMENTAL=0
# The emulator's path to the C library.
export QEMU_LD_PREFIX=$ROOT
# The fewest possible items, since a thread takes a millisecond to start there; and fewer random cases.
export CORESHARD_STRESS_ITEMS=${CORESHARD_STRESS_ITEMS:-1} PROPTEST_CASES=${PROPTEST_CASES:-64}
# A test takes many times as long; its package has half an hour.
export CORESHARD_TEST_LIMIT=${CORESHARD_TEST_LIMIT:-1500}

# install PACKAGE...: if the user is root on Debian.
install() {
  if command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  fi
}

# need TEST PACKAGES: TEST holds, or holds once PACKAGES are installed.
need() {
  local test=$1 packages=$2
  # shellcheck disable=SC2086 # the packages are words
  if ! $test && ! { install $packages && $test; }; then
    echo "ci/aarch64.sh: there is no ${test#has_}; on Debian: apt-get install $packages" >&2
    exit 1
  fi
}

has_linker() { [ "$(uname -m)" = aarch64 ] || { command -v aarch64-linux-gnu-gcc >/dev/null && [ -e "$ROOT/lib/libc.so.6" ]; }; }
has_emulator() { [ "$(uname -m)" = aarch64 ] || command -v qemu-aarch64 >/dev/null; }
has_standard_library() { [ -d "$(rustc --print target-libdir --target $TARGET)" ]; }
has_source_of_the_standard_library() {
  [ -x /usr/bin/cargo ] && [ -d "$(/usr/bin/rustc --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]
}

need has_linker 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross'
need has_emulator qemu-user
cargo=(cargo)
options=(--target "$TARGET")
if ! has_standard_library && ! timeout 300 rustup target add $TARGET 2>/dev/null; then
  need has_source_of_the_standard_library 'rustc-web cargo-web rust-web-src'
  export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
  cargo=(/usr/bin/cargo)
  options+=(-Zbuild-std)
fi

# emulated COMMAND...: runs it in a namespace whose kernel can start programs for aarch64.
emulated() {
  if [ "$(uname -m)" = aarch64 ]; then
    "$@"
    return
  fi
  local identity=(--map-current-user --keep-caps)
  # Root gives the namespace all users, since some tests become another one.
  [ "$(id -u)" -ne 0 ] || identity=()
  # An ELF file of 64 bits, little-endian, a program (2) or one that can lie anywhere (3), for machine 0xb7.
  # shellcheck disable=SC2016 # the inner shell's
  unshare --user "${identity[@]}" --mount bash -c '
    set -e
    until grep -q . /proc/self/gid_map; do sleep 0.1; done
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    zeros="\x00\x00\x00\x00\x00\x00\x00\x00"
    ones="\xff\xff\xff\xff\xff\xff\xff"
    printf %s ":aarch64:M::\x7fELF\x02\x01\x01\x00$zeros\x02\x00\xb7\x00:$ones\x00$ones\xff\xfe\xff\xff\xff:$0:P" \
      >/proc/sys/fs/binfmt_misc/register
    exec "$@"' "$(command -v qemu-aarch64)" "$@" &
  local process=$!
  if [ ${#identity[@]} -eq 0 ]; then
    # Waits until it is in its namespace.
    until cat /proc/self/uid_map 2>/dev/null >"/proc/$process/uid_map" || ! kill -0 $process 2>/dev/null; do
      sleep 0.1
    done 2>/dev/null
    cat /proc/self/gid_map >"/proc/$process/gid_map" || true
  fi
  wait $process
}

failed=()

# step NAME COMMAND...: writes the output to a separate file, and prints how many tests passed, and which were skipped,
# and why.
step() {
  local name=$1 log=$LOGS/$1.log started=$SECONDS rc=0
  shift
  "$@" >"$log" 2>&1 || rc=$?
  [ "$rc" -ne 124 ] || echo 'error: it was not over in time' >>"$log"
  awk -v name="$name" -v seconds="$((SECONDS - started))" '
    /^test result:/ { passed += $4; failed += $6; ignored += $8 }
    END {
      if (passed + failed) name = sprintf("%s: %d passed, %d failed, %d ignored", name, passed, failed, ignored)
      printf "%s, %d s\n", name, seconds
    }' "$log"
  grep -hoE 'SKIPPED .*' "$log" | sort | uniq -c || true
  if [ "$rc" -ne 0 ]; then
    echo "ci/aarch64.sh: $name failed; see $log" >&2
    grep -hE '^(error|    [a-z_:]+$)|panicked at|\.\.\. FAILED' "$log" | tail -n 60 >&2 || true
    failed+=("$name")
  fi
}

# tests WRAPPER PACKAGE SECONDS ARGUMENT...: the tests of a package, with a limit, run by a command or function.
tests() {
  local wrapper=$1 package=$2 limit=$3
  shift 3
  "$wrapper" timeout --kill-after=10 "$limit" "${cargo[@]}" test --no-fail-fast "${options[@]}" -p "$package" \
    --lib --tests -- --show-output "$@"
}

mkdir -p "$LOGS"
if [ $# -eq 0 ]; then
  step build timeout --kill-after=10 1800 "${cargo[@]}" build --workspace "${options[@]}"
fi
# shellcheck disable=SC2048 # the packages are words
for package in ${*:-$LIBRARIES}; do
  step "$package" tests emulated "$package" 1800
done
if [ $# -eq 0 ]; then
  # Outside of the namespace: root may use priorities and lock memory, but programs cannot start themselves.
  runner=CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
  [ "$(uname -m)" = aarch64 ] || export $runner=qemu-aarch64
  step privileged-platform tests env coreshard-platform 900 --skip forked_process::
  step privileged-rt tests env coreshard-rt 900 --skip an_executor_ends_whoever_drops_it \
    --skip forked_process:: --skip growth:: --skip undone::
  unset $runner
  step bench-queue emulated timeout --kill-after=10 900 "${cargo[@]}" run "${options[@]}" -p coreshard-cli -- \
    bench queue --items 200 --runs 1 --html target/aarch64/bench-queue.html
fi

if [ ${#failed[@]} -gt 0 ]; then
  echo "ci/aarch64.sh: failed: ${failed[*]}" >&2
  exit 1
fi
