#!/usr/bin/env bash
# No combination of rungs is deadlocked on any whole machine, under either profile; none of those that are drawn from all
# machines of up to 1,024 CPUs is; and programs that do nothing but fork end, however many workers look for jobs.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo run --release -p coreshard-sim --example every_combination "${1:-1,10,100}" "${2:-2}"
# The first CPUs of each machine, with twenty seeds.
cargo run --release -p coreshard-sim --example every_combination 1,10,100 20 8
# Each night others, of some millions: half of the machines whole, up to 1,000 items for each CPU.
cargo run --release -p coreshard-sim --example drawn_combinations "${3:-1800}" "$(($(date +%s) / 86400 * 100000))"
# A minute or two each, where they end.
timeout --kill-after=10 600 cargo run --release -p coreshard-sim --example forks grace tree:10:200 8,72
timeout --kill-after=10 600 cargo run --release -p coreshard-sim --example forks epyc-9654-2s tree:10:200 192 cache
