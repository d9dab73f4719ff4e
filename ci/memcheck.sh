#!/usr/bin/env bash
# Runs tests under valgrind's memcheck, if it is installed: queues frozen, drained, changed, dropped, panicked
# in and forked, under load; reusable items; forked jobs. Invalid accesses and unreachable memory are errors.
# Nothing is suppressed.
#
# Usage: ci/memcheck.sh [TEST...]    the modules of coreshard-workqueue's tests to run, by name.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind >/dev/null; then
  printf '%s\n' '!!! ci/memcheck.sh: NOT RUN: valgrind is not installed; leaks and wrong accesses were not looked for' >&2
  exit 0
fi

tests=("$@")
[ "${#tests[@]}" -gt 0 ] || tests=(under_load contract work fork tasks forked_process)

# Only unreachable memory counts: threads that still run at the end of the process reach the rest, by pointers
# into its middle. Forked children are silent, since memory of their parent's threads is lost to them; the tests
# check how they end. --fair-sched: valgrind runs one thread at a time, and a thread that waits must not starve
# the one that it waits for.
valgrind='valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect
  --errors-for-leak-kinds=definite,indirect --error-exitcode=1 --num-callers=30 --fair-sched=yes
  --child-silent-after-fork=yes --trace-children=yes'
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
# Everything takes many times as long.
export CORESHARD_TEST_LIMIT=${CORESHARD_TEST_LIMIT:-3600}
export "CARGO_TARGET_${host}_RUNNER=${valgrind//$'\n'/}"

for test in "${tests[@]}"; do
  if [ ! -e "crates/coreshard-workqueue/tests/all/$test.rs" ]; then
    echo "ci/memcheck.sh: there are no tests '$test' in crates/coreshard-workqueue/tests/all" >&2
    exit 2
  fi
done
cargo test -p coreshard-workqueue --test all -- "${tests[@]/%/::}"
