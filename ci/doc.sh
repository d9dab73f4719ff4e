#!/usr/bin/env bash
# The documentation of the libraries builds, with all features: no broken link, no public item without a word. Programs and
# what only tests use have no readers, and would have many more dependencies checked.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --exclude coreshard-cli --exclude hash_tree \
  --exclude judges --exclude services --exclude structure --exclude testing --exclude torture

# A path that rustdoc has left as it was written leads nowhere: its item is not in these pages, and its crate does not say where
# its own are (`html_root_url`). Those of `tracing` are in what it says of its own traits.
dead=$(grep -rohE 'href="[^"#/]*::[^"]*"' --include='*.html' "${CARGO_TARGET_DIR:-target}"/doc/coreshard* | sort -u |
  grep -vxE 'href="(super::Subscriber|super::Span::current\(\)|crate::Span)"' || true)
if [ -n "$dead" ]; then
  printf '%s: links that lead nowhere (remove target/doc if they are of old pages):\n%s\n' "$0" "$dead" >&2
  exit 1
fi
