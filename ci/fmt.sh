#!/usr/bin/env bash
# The code is formatted as rustfmt.toml says. To fix it: cargo fmt --all
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo fmt --version >/dev/null 2>&1; then
  echo "ci/fmt.sh: rustfmt is not installed; run: rustup component add rustfmt" >&2
  exit 1
fi
if ! cargo fmt --all --check; then
  echo "ci/fmt.sh: some files are not formatted; run: cargo fmt --all" >&2
  exit 1
fi
