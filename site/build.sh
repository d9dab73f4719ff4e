#!/usr/bin/env bash
# Builds the site: docs/ as an mdBook, with the machine page, in target/site/book. Open target/site/book/index.html to
# read it without the Internet. Every link and anchor of the output is checked.
#
# Usage: site/build.sh
#
# Needs mdbook (cargo install mdbook --no-default-features --features search), Python 3, and for the machine page Rust's
# target wasm32-unknown-unknown (rustup target add wasm32-unknown-unknown).
set -euo pipefail
cd "$(dirname "$0")/.."

readonly OUT=target/site
if ! command -v mdbook >/dev/null; then
  echo 'site/build.sh: there is no mdbook (cargo install mdbook --no-default-features --features search)' >&2
  exit 1
fi
rm -rf "$OUT/src" "$OUT/book"
mkdir -p "$OUT"
python3 site/pages.py docs/SUMMARY.md "$OUT/src"
cp site/book.toml site/site.css "$OUT/"
mdbook build "$OUT" --dest-dir "$PWD/$OUT/book"
site/machine/build.sh "$OUT/book/machine/index.html"
python3 site/check_links.py "$OUT/book"
