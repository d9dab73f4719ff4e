#!/usr/bin/env bash
# The tests, by the very command that the README gives.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test -p coreshard-workqueue --all-features --test executors
cargo test --workspace
