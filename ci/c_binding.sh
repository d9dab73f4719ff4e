#!/usr/bin/env bash
# Builds bindings/c, and runs its C tests with the shared library; checks the headers in C and C++; runs the README's program
# with the static library. (A test of the crate checks that coreshard.h is up to date.) ci/c_sanitizers.sh has longer checks.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly C=bindings/c
for tool in cc c++; do
  command -v $tool >/dev/null || { echo "ci/c_binding.sh: there is no $tool; on Debian: apt-get install g++" >&2; exit 1; }
done
out=$($C/build.sh --debug)
readonly out
readonly WARN='-Wall -Wextra -Wpedantic -Werror'
mkdir -p "$out/tests"

# shellcheck disable=SC2086 # the options are words
for test in kernel_operations check more devices allocations forks nulls; do
  cc -std=gnu11 -O1 -g $WARN -I$C/include -o "$out/tests/$test" $C/tests/$test.c -L"$out" -lcoreshard -lpthread \
    -Wl,-rpath,"$PWD/$out"
  "$out/tests/$test"
done
# Each exported function must be covered by the table of forked processes.
for function in $(grep -o 'cs_[a-z_]*;' $C/coreshard.map | tr -d ';'); do
  grep -qw "$function" $C/tests/forks.c || { echo "ci/c_binding.sh: $function is not called in $C/tests/forks.c" >&2; exit 1; }
done
# Each function with a pointer must be tested with null.
for function in $(tr '\n' ' ' <$C/include/coreshard.h | grep -o '\bcs_[a-z_]*([^()]*\*[^()]*);' | grep -o '^cs_[a-z_]*'); do
  grep -qw "$function" $C/tests/nulls.c || { echo "ci/c_binding.sh: $function is not called in $C/tests/nulls.c" >&2; exit 1; }
done
CORESHARD_CHECK=1 "$out/tests/forks" | tail -n 1
CORESHARD_CHECK=1 "$out/tests/nulls" | tail -n 1
# The checking library finds freed works; and the table of kernel operations must also hold with it.
LD_PRELOAD="$PWD/$out/libcoreshard_check.so" "$out/tests/check" a_queued_work_that_is_freed_is_found
CORESHARD_CHECK=1 LD_PRELOAD="$PWD/$out/libcoreshard_check.so" "$out/tests/kernel_operations" | tail -n 1
# shellcheck disable=SC2086
echo '#include <coreshard/kernel_workqueue.h>' | c++ -std=c++17 $WARN -I$C/include -fsyntax-only -x c++ -
# shellcheck disable=SC2086
cc -std=gnu11 -O2 $WARN -I$C/include -o "$out/tests/treesize" $C/examples/treesize.c "$out/libcoreshard.a" -lpthread -lm -ldl
"$out/tests/treesize" $C/tests | grep -q ' in [1-9][0-9]* files; 0 could not be read'
