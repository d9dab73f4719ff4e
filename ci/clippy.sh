#!/usr/bin/env bash
# No warning of the compiler or of clippy. ci/test.sh compiles the workspace with these lints: libraries, programs, tests and
# examples, with all features. Here are the crates as a program has them that asks for less.
#
# Usage: ci/clippy.sh [all]    all: the whole workspace as well
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lints.sh

cargo check -p coreshard -p coreshard-topology --no-default-features
cargo check -p coreshard-topology --features presets
cargo check -p coreshard-topology --features hwloc
[ "${1:-}" != all ] || cargo test --workspace --no-run
