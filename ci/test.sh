#!/usr/bin/env bash
# Runs the tests with the README's command. Ends with the list of skipped tests, each with the missing feature
# (ci/testing/src/lack.rs has the names). Features that this machine has must be used by the tests.
#
# Usage: ci/test.sh
#        CORESHARD_REQUIRE=io_uring,rt ci/test.sh    the features that the machine must have, instead of the detected ones
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lints.sh

# Prints the features of this machine, one name a line. Detects them in another way than the tests do, so that a wrong detection
# there is noticed.
has() {
  local group point
  # 425: io_uring_setup, with a structure of 120 bytes.
  if perl -e '$p = "\0" x 120; exit(syscall(425, 1, $p) < 0)' 2>/dev/null; then echo io_uring; fi
  if grep -qw errno /proc/sys/kernel/seccomp/actions_avail 2>/dev/null; then echo seccomp; fi
  if unshare --user --map-root-user --mount mount -t tmpfs none /mnt 2>/dev/null; then echo mount; fi
  # In a new mount namespace, so that no other process sees the mount.
  if unshare --mount sh -c 'mount -t tracefs tracefs /mnt && test -w /mnt/instances && test -d /mnt/events/workqueue' 2>/dev/null; then
    echo tracefs
  fi
  if command -v taskset >/dev/null; then echo taskset; fi
  if command -v cc >/dev/null; then echo c_compiler; fi
  if command -v c++ >/dev/null; then echo cpp_compiler; fi
  if command -v dwp >/dev/null; then echo dwp; fi
  if command -v llvm-dwp >/dev/null; then echo llvm_dwp; fi
  if command -v b3sum >/dev/null && command -v sha256sum >/dev/null; then echo hash_tools; fi
  if [ "$(id -u)" -eq 0 ]; then echo root; fi
  if chrt --fifo 99 true 2>/dev/null; then echo rt; fi
  # 324: membarrier on x86-64. Its commands are bits: 8 and 16 are the private expedited one.
  if [ "$(uname -m)" = x86_64 ] && perl -e '$m = syscall(324, 0, 0, 0); exit(!($m > 0 && $m & 8))' 2>/dev/null; then
    echo membarrier
  fi
  # The build folder is here, as are the files of most tests.
  case " $(stat -f -c %T . "${TMPDIR:-/tmp}" 2>/dev/null | paste -sd' ') " in *' tmpfs '* | *' ramfs '* | *' overlayfs '* | '  ') ;; *) echo disk ;; esac
  point=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
  group=$point/coreshard-asks-$$
  if [ -n "$point" ] && mkdir "$group" 2>/dev/null; then
    if [ -e "$group/cpu.max" ]; then echo cgroup; fi
    rmdir "$group"
  fi
  if losetup -f >/dev/null 2>&1; then
    echo loop
    if command -v mkfs.ext4 >/dev/null; then echo ext4; fi
  fi
  if qemu-x86_64 -h 2>/dev/null | grep -q plugin; then echo qemu; fi
  if [ -e /sys/kernel/btf/vmlinux ]; then echo btf; fi
  if [ "$(id -u)" -eq 0 ]; then
    if [ -x /usr/sbin/tuned ]; then echo tuned; fi
    if udevadm --version >/dev/null 2>&1 && compgen -G '/sys/block/*/device' >/dev/null; then echo udev; fi
  fi
  echo forked_threads
}

if [ -z "${CORESHARD_REQUIRE+set}" ]; then
  CORESHARD_REQUIRE=$(has | paste -sd, -)
fi
CORESHARD_SKIPS=$(mktemp)
export CORESHARD_REQUIRE CORESHARD_SKIPS
echo "this machine has $CORESHARD_REQUIRE"

# Also after a failure.
list_skips() {
  local count
  # A test may report the same skip for each of its cases.
  sort -u "$CORESHARD_SKIPS" >"$CORESHARD_SKIPS.sorted"
  count=$(wc -l <"$CORESHARD_SKIPS.sorted")
  if [ "$count" -eq 0 ]; then
    echo 'nothing was skipped'
  else
    echo "skipped: $count"
    sed 's/^/  for lack of /' "$CORESHARD_SKIPS.sorted"
  fi
  rm -f "$CORESHARD_SKIPS" "$CORESHARD_SKIPS.sorted"
}
trap list_skips EXIT

# rayon's interface with more threads than CPUs, and with a pool for each CPU.
RAYON_NUM_THREADS=8 cargo test --workspace --test adapter -- join:: scope:: spawn:: broadcast:: thread_pool::
CORESHARD_SCOPE=cpu cargo test --workspace --test adapter -- scope:: spawn:: broadcast:: thread_pool::
# `judges` turns on the features of the library, including `testing`: no feature changes another one. All failures are listed, not only the first.
cargo test --workspace --no-fail-fast
