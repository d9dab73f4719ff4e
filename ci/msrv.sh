#!/usr/bin/env bash
# Checks that the oldest supported Rust (rust-version in Cargo.toml) compiles everything, including tests.
#
# Needs that toolchain; rustup installs it if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if ! command -v rustup >/dev/null || ! timeout 600 rustup toolchain install --profile minimal "$version" >/dev/null 2>&1; then
  echo "ci/msrv.sh: needs Rust $version; run: rustup toolchain install --profile minimal $version" >&2
  exit 1
fi
CARGO_TARGET_DIR=target/msrv CARGO_INCREMENTAL=0 cargo "+$version" check --locked --workspace --all-targets
