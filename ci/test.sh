#!/usr/bin/env bash
# The tests, by the very command that the README gives.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test -p coreshard-workqueue --all-features --test executors
# The facade of the crate metrics is off by default; the socket is on with the command.
cargo test -p coreshard --features insight,metrics --test metrics
cargo test --workspace
