# For the steps that build and test; they source it. What cargo compiles of this workspace is compiled by clippy's driver,
# which is the compiler with more lints: one build for the tests and for clippy, where `cargo clippy` would check every
# crate and every test once more. A warning is an error.
# shellcheck shell=bash

driver=$(rustc --print sysroot)/bin/clippy-driver
if ! "$driver" --version >/dev/null 2>&1; then
  echo "$0: clippy is not installed; run: rustup component add clippy" >&2
  exit 1
fi
export RUSTC_WORKSPACE_WRAPPER=$driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# What nobody edits between two builds is not compiled in parts.
export CARGO_INCREMENTAL=0
# Line tables are a fifth of the work for a test program, and a failure names its file and line without them. Packages whose
# tests read debug information have theirs by Cargo.toml.
export CARGO_PROFILE_DEV_DEBUG=0
