#!/usr/bin/env bash
# No combination of variants is deadlocked on any whole machine, under either profile; none of those that are drawn from all
# machines of up to 1,024 CPUs is; and programs that do nothing but fork end, however many workers look for jobs.
# CORESHARD_LONG=1: a hundred items as well, more seeds, and half an hour of drawn combinations.
set -euo pipefail
cd "$(dirname "$0")/.."

items=1,10 seeds=1 seeds_of_first=5 seconds=200
if [ -n "${CORESHARD_LONG:-}" ]; then items=1,10,100 seeds=2 seeds_of_first=20 seconds=1800; fi

cargo build --quiet --release -p coreshard-sim --examples
examples=${CARGO_TARGET_DIR:-target}/release/examples
"$examples/every_combination" "$items" "$seeds"
# The first CPUs of each machine.
"$examples/every_combination" "$items" "$seeds_of_first" 8
# Each night others, of some millions: half of the machines whole, up to 1,000 items for each CPU.
"$examples/drawn_combinations" "$seconds" "$(($(date +%s) / 86400 * 100000))"
# A minute or two each, if they end.
cargo build --quiet --release -p scaling
scaling=${CARGO_TARGET_DIR:-target}/release/scaling
timeout --kill-after=10 600 "$scaling" --machine grace --loads tree:10:200 --executors coreshard
timeout --kill-after=10 600 "$scaling" --machine epyc-9654-2s --scope cache --loads tree:10:200 --executors coreshard
