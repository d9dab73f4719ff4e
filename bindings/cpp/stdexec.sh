#!/usr/bin/env bash
# stdexec on Coreshard: its tests of the parallel_scheduler with our backend, ours of senders, and its static_thread_pool
# examples beside a queue, in turns.
#
# Usage: bindings/cpp/stdexec.sh STDEXEC CATCH2 [RUNS]    folders with the sources of github.com/NVIDIA/stdexec and of
#        github.com/catchorg/Catch2 (3 or later); 7 turns by default, 0 for the tests alone
#        CXX=g++-14 ...    another compiler than c++; stdexec needs gcc 12 or clang 16
set -euo pipefail
readonly HERE=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ] || [ ! -d "$1/include/stdexec" ] || [ ! -e "$2/extras/catch_amalgamated.cpp" ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
STDEXEC=$(cd "$1" && pwd) CATCH2=$(cd "$2" && pwd)/extras
readonly STDEXEC CATCH2 RUNS=${3:-7} CXX=${CXX:-c++}
cd "$HERE/../.."

lib=$(bindings/c/build.sh)
lib=$(cd "$lib" && pwd)
readonly OUT=$lib/stdexec
mkdir -p "$OUT/catch2"
echo '#include <catch_amalgamated.hpp>' >"$OUT/catch2/catch_all.hpp"
readonly INCLUDE="-I$HERE/include -I$HERE/../c/include -isystem $STDEXEC/include"
readonly LINK="-L$lib -lcoreshard -Wl,-rpath,$lib -pthread"

# compile OBJECT SOURCE OPTION...: unless it is newer than all that it may be of
compile() {
  local object=$OUT/$1 source=$2
  shift 2
  if [ ! -e "$object" ] || [ "$source" -nt "$object" ] ||
    [ -n "$(find "$HERE/include" "$HERE/tests/stdexec" -newer "$object" -print -quit)" ]; then
    # shellcheck disable=SC2086 # the options are words
    "$CXX" -std=c++20 -DSTDEXEC_NAMESPACE=std::execution -Wno-deprecated-declarations $INCLUDE "$@" -c -o "$object" "$source"
  fi
}

# Theirs, by their own names, with what they would compile themselves.
if [ ! -e "$OUT/catch.o" ]; then "$CXX" -std=c++20 -O1 -I"$CATCH2" -c -o "$OUT/catch.o" "$CATCH2/catch_amalgamated.cpp"; fi
compile theirs.o "$STDEXEC/test/stdexec/schedulers/test_parallel_scheduler.cpp" -O1 -I"$OUT" -I"$CATCH2" -I"$STDEXEC/test"
compile default.o "$STDEXEC/src/parallel_scheduler/parallel_scheduler.cpp" -O1
compile at_run_time.o "$HERE/tests/stdexec/at_run_time.cpp" -O1 -Wall -Wextra
# shellcheck disable=SC2086
"$CXX" -o "$OUT/parallel_scheduler" "$OUT"/{theirs,at_run_time,default,catch}.o $LINK
"$OUT/parallel_scheduler"

# Ours, with the backend that takes the other one's place when the program is linked.
# shellcheck disable=SC2086
"$CXX" -std=c++20 -O1 -g -Wall -Wextra -Werror -Wno-deprecated-declarations $INCLUDE -o "$OUT/senders" \
  "$HERE/tests/stdexec/senders.cpp" $LINK
"$OUT/senders"
[ "$RUNS" -gt 0 ] || exit 0

# Their examples; a copy of each has another pool, and fewer items and rounds.
for example in static_thread_pool static_thread_pool_nested static_thread_pool_bulk_enqueue_nested; do
  mkdir -p "$OUT/$example"
  sed -e 's/exec::static_thread_pool\([&,]\)/BENCH_POOL\1/; /common.hpp/a #include BENCH_HEADER' \
    "$STDEXEC/examples/benchmark/$example.cpp" >"$OUT/$example/$example.cpp"
  # In bulk a million takes less than it takes to wake two threads.
  items="1'000'000"
  case $example in *_bulk_*) items="10'000'000" ;; esac
  sed -e "s/total_scheds = 10'000'000/total_scheds = $items/; s/nRuns  = 100/nRuns  = 60/" \
    "$STDEXEC/examples/benchmark/common.hpp" >"$OUT/$example/common.hpp"
  for kind in theirs ours; do
    pool=exec::static_thread_pool header='<exec/static_thread_pool.hpp>'
    [ $kind = theirs ] || pool=coreshard_pool header='"pool.hpp"'
    # shellcheck disable=SC2086
    "$CXX" -std=c++20 -O3 -DNDEBUG -Wno-deprecated-declarations $INCLUDE -I"$HERE/tests/stdexec" "-DBENCH_POOL=$pool" \
      "-DBENCH_HEADER=$header" -o "$OUT/$example/$kind" "$OUT/$example/$example.cpp" $LINK
  done
done
for example in static_thread_pool static_thread_pool_nested static_thread_pool_bulk_enqueue_nested; do
  for run in $(seq "$RUNS"); do
    for kind in theirs ours; do
      # The median of a program's rounds, in items a second: where its clock is read late, a round seems to take no time. The
      # first example gives its memory back before the last item is off it, and may crash for that, with their pool, too.
      rate='' tries=0
      while [ -z "$rate" ] && [ $((tries += 1)) -le 10 ]; do
        rate=$({ stdbuf -oL "$OUT/$example/$kind" || true; } 2>/dev/null | sed -n 's/.*throughput: \([^,]*\),.*/\1/p' |
          sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }')
      done
      printf '%s %s %s %s\n' "$example" "$run" "$kind" "$rate"
    done
  done
done | awk '
  { rate[$1, $2, $3] = $4; seen[$1] = $2 }
  function median(v, n,   i, j, t) { for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (v[j] + 0 < v[i] + 0) { t = v[i]; v[i] = v[j]; v[j] = t } return v[int((n + 1) / 2)] }
  END {
    for (example in seen) {
      n = seen[example]
      for (run = 1; run <= n; run++) { t[run] = rate[example, run, "theirs"]; o[run] = rate[example, run, "ours"]; r[run] = o[run] / t[run] }
      printf "%s: theirs %.3g items/s, ours %.3g; ours has %.2f times the throughput", example, median(t, n), median(o, n), median(r, n)
      printf " (%.2f to %.2f)\n", r[1], r[n]
    }
  }'
