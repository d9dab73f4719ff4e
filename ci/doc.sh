#!/usr/bin/env bash
# Builds the documentation of the libraries, with all features: no broken link, no undocumented public item. Programs and test
# helpers are left out, since they would need many more dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --exclude coreshard-cli --exclude hash_tree \
  --exclude judges --exclude services --exclude structure --exclude testing --exclude torture

# A path that rustdoc has left unchanged is a dead link: its item is not in these pages, and its crate does not declare the
# address of its pages (`html_root_url`). The links of `tracing` are in the documentation of its own traits.
dead=$(grep -rohE 'href="[^"#/]*::[^"]*"' --include='*.html' "${CARGO_TARGET_DIR:-target}"/doc/coreshard* | sort -u |
  grep -vxE 'href="(super::Subscriber|super::Span::current\(\)|crate::Span)"' || true)
if [ -n "$dead" ]; then
  printf '%s: links that lead nowhere (remove target/doc if they are of old pages):\n%s\n' "$0" "$dead" >&2
  exit 1
fi
