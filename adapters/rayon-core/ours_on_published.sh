#!/usr/bin/env bash
# The tests here on the published rayon-core: do they ask what it promises? Three files stay away, which speak of Coreshard.
# The other way round, its tests on this package: check.sh.
#
# Usage: ./ours_on_published.sh [CARGO TEST ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")"

readonly WORK=$PWD/target/ours_on_published
mkdir -p "$WORK/src"
touch "$WORK/src/lib.rs"
{
  cat <<END
[package]
name = "ours_on_published"
version = "0.0.0"
edition = "2024"
autotests = false
[workspace]
[dependencies]
rayon-core = "=1.13.0"
[dev-dependencies]
libc = "0.2"
testing = { path = "$PWD/../../ci/testing" }
END
  for file in tests/*.rs; do
    case $file in
    tests/beside_queues.rs | tests/coreshard_environment.rs | tests/two_versions.rs) ;;
    *) printf '[[test]]\nname = "%s"\npath = "%s"\n' "$(basename "$file" .rs)" "$PWD/$file" ;;
    esac
  done
} >"$WORK/Cargo.toml"
CARGO_TARGET_DIR=$WORK/target timeout --kill-after 10 1800 \
  cargo test --no-fail-fast --manifest-path "$WORK/Cargo.toml" "$@"
