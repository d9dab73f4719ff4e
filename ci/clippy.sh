#!/usr/bin/env bash
# No warning of the compiler or of clippy. ci/test.sh compiles the workspace with these lints: libraries, programs, tests and
# examples. Here are the crates as a program has them that asks for fewer features; and at night all targets with all features
# at once, which finds what neither build compiles, such as a library's unit tests with the feature `testing`.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lints.sh

cargo check -p coreshard -p coreshard-topology --no-default-features
cargo check -p coreshard-topology --features presets
cargo check -p coreshard-topology --features hwloc
if [ -n "${CORESHARD_NIGHTLY:-}" ]; then cargo check --workspace --all-targets --all-features; fi
