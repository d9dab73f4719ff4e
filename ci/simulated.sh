#!/usr/bin/env bash
# No combination of rungs is deadlocked on any whole machine, under either profile.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo run --release -p coreshard-sim --example every_combination "${1:-1,10,100}" "${2:-2}"
