#!/usr/bin/env bash
# Builds the site, and checks that its links work, that a newcomer's pages are two clicks away, that the machine page works in a
# browser, and that every page can be read on a telephone, in light and dark mode.
#
# Usage: ci/site.sh
#
# Needs mdbook, Rust's target wasm32-unknown-unknown, Python 3, and a headless Chromium. Fails with the name of a missing tool.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v mdbook >/dev/null || missing+=('mdbook (cargo install mdbook --no-default-features --features search)')
command -v python3 >/dev/null || missing+=('python3')
command -v chromium-headless-shell chromium google-chrome >/dev/null || missing+=('chromium-headless-shell')
[ -d "$(rustc --print target-libdir --target wasm32-unknown-unknown)" ] ||
  missing+=('the target wasm32-unknown-unknown (rustup target add wasm32-unknown-unknown)')
if [ ${#missing[@]} -gt 0 ]; then
  printf 'ci/site.sh: there is no %s\n' "${missing[@]}" >&2
  exit 1
fi
cargo test --quiet --manifest-path site/machine/Cargo.toml
site/build.sh
site/find.py target/site/book
site/machine/test.py target/site/book/machine/index.html
site/look.py target/site/book
