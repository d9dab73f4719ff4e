#!/usr/bin/env bash
# The documentation builds, with all features: no broken link, no public item without a word.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps
