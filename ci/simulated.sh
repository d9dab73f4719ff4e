#!/usr/bin/env bash
# No combination of rungs is deadlocked on any whole machine, under either profile; and programs that do nothing but fork
# end, however many workers look for jobs.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo run --release -p coreshard-sim --example every_combination "${1:-1,10,100}" "${2:-2}"
# The first CPUs of each machine, with twenty seeds: five a process, which has room for 256 simulations.
for first in 0 5 10 15; do
  cargo run --release -p coreshard-sim --example every_combination 1,10,100 5 8 "$first"
done
# Seconds each, where they end.
timeout --kill-after=10 600 cargo run --release -p coreshard-sim --example forks grace tree:10:200 8,72
timeout --kill-after=10 600 cargo run --release -p coreshard-sim --example forks epyc-9654-2s tree:10:200 192 cache
