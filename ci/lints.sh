# Sourced by the steps that build and test. Cargo compiles the workspace with clippy's driver, which is the compiler with more
# lints: so one build serves the tests and clippy, while `cargo clippy` would check every crate and test again. A warning is an
# error.
# shellcheck shell=bash

driver=$(rustc --print sysroot)/bin/clippy-driver
if ! "$driver" --version >/dev/null 2>&1; then
  echo "$0: clippy is not installed; run: rustup component add clippy" >&2
  exit 1
fi
export RUSTC_WORKSPACE_WRAPPER=$driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# Incremental compilation only helps if files are edited between two builds.
export CARGO_INCREMENTAL=0
# Line tables are a fifth of the work for a test program, and a failure has its file and line without them. Packages whose
# tests read debug information enable it in Cargo.toml.
export CARGO_PROFILE_DEV_DEBUG=0
