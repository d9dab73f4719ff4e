#!/usr/bin/env bash
# Compares the simulator with all published tables: no prediction may be worse than its line in lab/score.tsv.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release -p coreshard-cli
cargo build --release -p coreshard-sim --example contention
lab/validate.py --score lab/score.tsv
