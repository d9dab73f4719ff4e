#!/usr/bin/env bash
# Checks that the compiler and clippy give no warning. ci/test.sh compiles the workspace with these lints: libraries, programs,
# tests and examples. This script checks the crates with fewer features; and at night all targets with all features at once,
# which covers code that neither build compiles, such as a library's unit tests with the feature `testing`.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lints.sh

cargo check -p coreshard -p coreshard-topology --no-default-features
cargo check -p coreshard-topology --features presets
cargo check -p coreshard-topology --features hwloc
if [ -n "${CORESHARD_NIGHTLY:-}" ]; then cargo check --workspace --all-targets --all-features; fi
