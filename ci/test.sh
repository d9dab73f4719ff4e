#!/usr/bin/env bash
# The tests, by the very command that the README gives. At the end stands what was not tested, and for lack of what
# (ci/testing/src/lack.rs has the names): what this machine has, no test may do without.
#
# Usage: ci/test.sh
#        CORESHARD_REQUIRE=io_uring,rt ci/test.sh    what the machine must have, in place of what is found by asking it
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lints.sh

# What this machine has, one name a line, found another way than the tests do: whoever looks wrongly there is seen.
has() {
  local group point
  # 425: io_uring_setup, with a structure of 120 bytes.
  if perl -e '$p = "\0" x 120; exit(syscall(425, 1, $p) < 0)' 2>/dev/null; then echo io_uring; fi
  if grep -qw errno /proc/sys/kernel/seccomp/actions_avail 2>/dev/null; then echo seccomp; fi
  if unshare --user --map-root-user --mount mount -t tmpfs none /mnt 2>/dev/null; then echo mount; fi
  # In a mount namespace of its own, so that it is mounted for nobody else.
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
  # Here are the build folder and, in most tests of a crate's own, the files.
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

# However it ends.
list_skips() {
  local count
  # A test may say the same thing for each case that it has.
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
# `judges` turns the features of the library on, `testing` among them: none changes what another one has. All that fails is listed, not the first alone.
cargo test --workspace --no-fail-fast
