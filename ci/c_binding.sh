#!/usr/bin/env bash
# bindings/c: built, and its tests in C against the shared library; the headers in C and C++; the README's program,
# against the static one. (That coreshard.h is fresh is a test of the crate's.) What takes longer is ci/c_sanitizers.sh's.
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
# What is exported and not said to a forked process is a gap.
for function in $(grep -o 'cs_[a-z_]*;' $C/coreshard.map | tr -d ';'); do
  grep -qw "$function" $C/tests/forks.c || { echo "ci/c_binding.sh: $function is not called in $C/tests/forks.c" >&2; exit 1; }
done
# So is what takes a pointer and is not given null.
for function in $(tr '\n' ' ' <$C/include/coreshard.h | grep -o '\bcs_[a-z_]*([^()]*\*[^()]*);' | grep -o '^cs_[a-z_]*'); do
  grep -qw "$function" $C/tests/nulls.c || { echo "ci/c_binding.sh: $function is not called in $C/tests/nulls.c" >&2; exit 1; }
done
CORESHARD_CHECK=1 "$out/tests/forks" | tail -n 1
CORESHARD_CHECK=1 "$out/tests/nulls" | tail -n 1
# Freed memory is looked at, too; and the rows hold where everything is.
LD_PRELOAD="$PWD/$out/libcoreshard_check.so" "$out/tests/check" a_queued_work_that_is_freed_is_found
CORESHARD_CHECK=1 LD_PRELOAD="$PWD/$out/libcoreshard_check.so" "$out/tests/kernel_operations" | tail -n 1
# shellcheck disable=SC2086
echo '#include <coreshard/kernel_workqueue.h>' | c++ -std=c++17 $WARN -I$C/include -fsyntax-only -x c++ -
# shellcheck disable=SC2086
cc -std=gnu11 -O2 $WARN -I$C/include -o "$out/tests/treesize" $C/examples/treesize.c "$out/libcoreshard.a" -lpthread -lm -ldl
"$out/tests/treesize" $C/tests | grep -q ' in [1-9][0-9]* files; 0 could not be read'
