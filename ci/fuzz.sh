#!/usr/bin/env bash
# Fuzzes every parser, one after the other, with libFuzzer. First checks that a planted bug is found.
#
# Usage: ci/fuzz.sh [SECONDS] [TARGET...]    SECONDS for each target, 60 by default; all targets by default.
#        RUNS=10000000 ci/fuzz.sh 0          this many inputs each, without a time limit
#        RUNS=10000000 ci/fuzz.sh 900        this many inputs each, or 900 seconds
#        SANITIZER=none ci/fuzz.sh           without the address sanitizer: several times the inputs
#        CORESHARD_NIGHTLY=1 ci/fuzz.sh      at night: both, see below
#
# Uses the address sanitizer with a nightly toolchain, and only coverage otherwise. If libFuzzer cannot be built,
# a test of the workspace runs a million mutated inputs on each target. Failing inputs are left in
# fuzz/target/found/TARGET: fix the bug, and keep the input in fuzz/crashes/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."

# At night: half a minute each with the sanitizer, then as long without it. CORESHARD_LONG=1: ten million inputs each without
# it, or two hours.
if [ -n "${CORESHARD_NIGHTLY:-}" ] && [ $# -eq 0 ]; then
  status=0
  ci/fuzz.sh 30 || status=1
  if [ -n "${CORESHARD_LONG:-}" ]; then
    RUNS=10000000 SANITIZER=none ci/fuzz.sh 7200 || status=1
  else
    SANITIZER=none ci/fuzz.sh 30 || status=1
  fi
  exit "$status"
fi

readonly SECONDS_EACH=${1:-60}
shift || true
readonly RUNS=${RUNS:--1}
readonly SANITIZER=${SANITIZER:-address}
# Per input: seconds and MiB. A parser that needs more is broken; the sanitizer's own memory is within.
readonly LIMITS=(-timeout=20 -rss_limit_mb=2048 -max_len=65536)

host=$(rustc -vV | sed -n 's/^host: //p')
flags='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=4 --cfg fuzzing'
if ! [[ $SECONDS_EACH =~ ^[0-9]+$ && $RUNS =~ ^(-1|[0-9]+)$ && $SANITIZER =~ ^(address|none)$ ]]; then
  echo "ci/fuzz.sh: SECONDS is '$SECONDS_EACH', RUNS is '$RUNS', SANITIZER is '$SANITIZER'; the first two" \
    "are whole numbers, the last is address or none" >&2
  exit 2
fi
mapfile -t all < <(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' fuzz/Cargo.toml | grep -v canary)
targets=("$@")
[ $# -gt 0 ] || targets=("${all[@]}")
for target in "${targets[@]}"; do
  if [[ " ${all[*]} " != *" $target "* ]]; then
    echo "ci/fuzz.sh: there is no target '$target'; the targets are: ${all[*]}" >&2
    exit 2
  fi
done

toolchain=()
if [ "$SANITIZER" = none ]; then
  :
elif command -v rustup >/dev/null && rustup run nightly rustc --version >/dev/null 2>&1; then
  toolchain=(+nightly)
  flags="$flags -Zsanitizer=address"
else
  echo "ci/fuzz.sh: no nightly toolchain, so no sanitizer (rustup toolchain install nightly)" >&2
fi

# Flags only for the target: build scripts and macros are not fuzzed.
if ! RUSTFLAGS="$flags" cargo "${toolchain[@]}" build --quiet --release --target "$host" --manifest-path fuzz/Cargo.toml --bins; then
  echo "ci/fuzz.sh: libFuzzer cannot be built here; a million mutated inputs run without it" >&2
  CORESHARD_FUZZ_INPUTS=1000000 CORESHARD_TEST_LIMIT=14400 cargo test --release -p coreshard-cli --test all fuzz_corpus::
  exit
fi
readonly PROGRAMS=fuzz/target/$host/release

# run TARGET OPTION...
run() {
  local target=$1 folder
  shift
  mkdir -p "fuzz/target/grown/$target" "fuzz/target/found/$target" "fuzz/crashes/$target"
  local folders=("fuzz/target/grown/$target" "fuzz/corpus/$target")
  # git keeps no empty folder
  folder=fuzz/crashes/$target
  if [ -n "$(ls -A "$folder")" ]; then folders+=("$folder"); else rmdir "$folder"; fi
  "$PROGRAMS/$target" "${LIMITS[@]}" -artifact_prefix="fuzz/target/found/$target/" -print_final_stats=1 \
    "$@" "${folders[@]}"
}

if run canary -max_total_time=120 >fuzz/target/canary.log 2>&1 || ! grep -q 'the canary was found' fuzz/target/canary.log; then
  echo "ci/fuzz.sh: the planted bug was not found, so nothing would be; see fuzz/target/canary.log" >&2
  exit 1
fi
rm -rf fuzz/target/found/canary

failed=()
for target in "${targets[@]}"; do
  log=fuzz/target/$target.log
  started=$SECONDS
  if run "$target" -max_total_time="$SECONDS_EACH" -runs="$RUNS" >"$log" 2>&1; then
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
    echo "$target: $inputs inputs in $((SECONDS - started)) s, at most $peak MiB: no promise was broken"
  else
    failed+=("$target")
    tail -n 40 "$log" >&2
    echo "ci/fuzz.sh: $target breaks a promise; the input is in fuzz/target/found/$target" >&2
  fi
done
[ ${#failed[@]} -eq 0 ]
