#!/usr/bin/env bash
# The simulator against all published tables: none is predicted worse than lab/score.tsv says.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release -p coreshard-cli
cargo build --release -p coreshard-sim --example contention
lab/validate.py --score lab/score.tsv
