#!/usr/bin/env bash
# The tests here on the published rayon-core: do they ask what it promises? Four files stay away, which speak of Coreshard.
# The other way round, its tests on this package: check.sh.
#
# Usage: ./ours_on_published.sh [CARGO TEST ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")"

readonly WORK=$PWD/../../target/ours_on_published
mkdir -p "$WORK/src" "$WORK/tests"
touch "$WORK/src/lib.rs"
cat >"$WORK/Cargo.toml" <<END
[package]
name = "ours_on_published"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
rayon-core = "=1.13.0"
[dev-dependencies]
libc = "0.2"
testing = { path = "$PWD/../../ci/testing" }
END
sed -E "/^mod (beside_queues|coreshard_environment|forked|two_versions);/d
  s|^mod ([a-z_]+);|#[path = \"$PWD/tests/adapter/\1.rs\"] mod \1;|" tests/adapter/main.rs >"$WORK/tests/adapter.rs"
CARGO_TARGET_DIR=$WORK/target timeout --kill-after 10 1800 \
  cargo test --no-fail-fast --manifest-path "$WORK/Cargo.toml" "$@"
