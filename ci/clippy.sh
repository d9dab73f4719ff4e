#!/usr/bin/env bash
# No warning of the compiler or of clippy, in libraries, programs, tests, examples and benchmarks.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo clippy --version >/dev/null 2>&1; then
  echo "ci/clippy.sh: clippy is not installed; run: rustup component add clippy" >&2
  exit 1
fi
cargo clippy --workspace --all-targets -- -D warnings
# With the features that are off by default.
cargo clippy -p coreshard --all-targets --all-features -- -D warnings
# Queues alone, as a program has them that asks for nothing else; and each of what the topology has by features.
cargo clippy -p coreshard --no-default-features -- -D warnings
cargo clippy -p coreshard-topology --features presets -- -D warnings
cargo clippy -p coreshard-topology --features hwloc -- -D warnings
