#!/usr/bin/env bash
# adapters/rayon-core, which is a workspace of its own: formatted, without a warning, its tests, and as many threads as there
# are not CPUs. What rayon's published suites and other people's programs say of it is check.sh's, beside it (ci/nightly.sh).
set -euo pipefail
cd "$(dirname "$0")/../adapters/rayon-core"

if ! cargo fmt --check; then
  echo "ci/adapter.sh: some files are not formatted; run: cargo fmt, in adapters/rayon-core" >&2
  exit 1
fi
cargo clippy --all-targets -- -D warnings
cargo test
cargo test --features insight --test coreshard_environment
RAYON_NUM_THREADS=8 cargo test --test join --test scope --test spawn --test broadcast --test thread_pool
CORESHARD_SCOPE=cpu cargo test --test scope --test spawn --test broadcast --test thread_pool
