#!/usr/bin/env bash
# Measures the cost of queueing a work from C, compared with Rust: instructions inside the call, counted by callgrind,
# and nanoseconds per work of a flood, queued and run, in alternating order.
#
# Usage: bindings/c/cost/cost.sh [RUNS]    needs valgrind; 9 timed runs by default
set -euo pipefail
cd "$(dirname "$0")/../../.."

readonly RUNS=${1:-9} COUNT=20000 C=bindings/c
readonly TARGET=${CARGO_TARGET_DIR:-target}
$C/build.sh >/dev/null
cargo build --quiet --release -p coreshard-c --example queue_cost
readonly OUT=$TARGET/c/release
cc -O2 -I$C/include -o "$OUT/cost.shared" $C/cost/queue_cost.c -L"$OUT" -lcoreshard -Wl,-rpath,"$PWD/$OUT"
cc -O2 -I$C/include -o "$OUT/cost.static" $C/cost/queue_cost.c "$OUT/libcoreshard.a" -lpthread -lm -ldl
readonly RUST=$TARGET/release/examples/queue_cost

# instructions PROGRAM FUNCTION: of one call, the median of seven counts. They differ by 3.5: by how often a worker sleeps meanwhile, whom
# the call wakes.
instructions() {
  for _ in 1 2 3 4 5 6 7; do
    valgrind --tool=callgrind --callgrind-out-file="$OUT/callgrind" --toggle-collect="$2" "$1" $COUNT 2 2>&1 |
      awk -v calls=$((COUNT * 2)) '/Collected/ { printf "%.2f\n", $NF / calls }'
  done | sort -n | sed -n 4p
}
rust=$(instructions "$RUST" queue_work)
for kind in shared static; do
  c=$(instructions "$OUT/cost.$kind" cs_queue_work)
  echo "instructions of a queueing, $kind: $c, of Rust's $rust: $(awk "BEGIN { printf \"%.2f\", $c / $rust }") times"
done

for run in $(seq "$RUNS"); do
  for kind in shared static; do echo "$kind $run $("$OUT/cost.$kind" 50000 40) $("$RUST" 50000 40)"; done
done | awk '
  { c[$1] = c[$1] " " $3; rust[$1] = rust[$1] " " $4; ratio[$1] = ratio[$1] " " $4 / $3; n[$1]++ }
  function median(text, count,   v, i, j, t) { split(text, v, " "); for (i = 1; i <= count; i++) for (j = i + 1; j <= count; j++) if (v[j] + 0 < v[i] + 0) { t = v[i]; v[i] = v[j]; v[j] = t } low = v[1]; high = v[count]; return v[int((count + 1) / 2)] }
  END { for (kind in n) printf "flood, %s: C %.0f ns a work, Rust %.0f; C has %.2f times the throughput (%.2f to %.2f)\n", kind, median(c[kind], n[kind]), median(rust[kind], n[kind]), median(ratio[kind], n[kind]), low, high }'
