#!/usr/bin/env bash
# Checks that no combination of variants deadlocks on any whole machine, under either profile, or on random machines of up to
# 1,024 CPUs; and that programs that only fork end with any number of searching workers.
# CORESHARD_LONG=1: also a hundred items, more seeds, and half an hour of random combinations.
set -euo pipefail
cd "$(dirname "$0")/.."

items=1,10 seeds=1 seeds_of_first=5 seconds=200
if [ -n "${CORESHARD_LONG:-}" ]; then items=1,10,100 seeds=2 seeds_of_first=20 seconds=1800; fi

cargo build --quiet --release -p coreshard-sim --examples
examples=${CARGO_TARGET_DIR:-target}/release/examples
"$examples/every_combination" "$items" "$seeds"
# Uses the first CPUs of each machine.
"$examples/every_combination" "$items" "$seeds_of_first" 8
# Others each night, out of some millions: half of the machines whole, up to 1,000 items for each CPU.
"$examples/drawn_combinations" "$seconds" "$(($(date +%s) / 86400 * 100000))"
# A minute or two each, if they end.
cargo build --quiet --release -p scaling
scaling=${CARGO_TARGET_DIR:-target}/release/scaling
timeout --kill-after=10 600 "$scaling" --machine grace --loads tree:10:200 --executors coreshard
timeout --kill-after=10 600 "$scaling" --machine epyc-9654-2s --scope cache --loads tree:10:200 --executors coreshard
