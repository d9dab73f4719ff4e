#!/usr/bin/env bash
# The documentation of the libraries builds, with all features: no broken link, no public item without a word. Programs and
# what only tests use have no readers, and would have many more dependencies checked.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --exclude coreshard-cli --exclude hash_tree \
  --exclude judges --exclude services --exclude structure --exclude testing --exclude torture
