#!/usr/bin/env bash
# What a release needs: the crates can be packaged, and compile from their packages; what they are built of has licences that are
# allowed and no known flaw; and the program that is handed out can be made and says its version.
#
# Usage: ci/release.sh
#
# Needs cargo-deny (cargo install cargo-deny --locked), and the Internet for its list of flaws; without the Internet the licences are
# checked alone, and that is said.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo package --workspace --locked --allow-dirty --quiet
if ! cargo deny --version >/dev/null 2>&1; then
  echo 'ci/release.sh: there is no cargo-deny (cargo install cargo-deny --locked)' >&2
  exit 1
fi
for manifest in Cargo.toml adapters/rayon-core/Cargo.toml site/machine/Cargo.toml; do
  cargo deny --manifest-path "$manifest" check --config "$PWD/deny.toml" bans licenses sources
  if ! cargo deny --manifest-path "$manifest" check --config "$PWD/deny.toml" advisories; then
    if cargo deny --manifest-path "$manifest" fetch db >/dev/null 2>&1; then
      exit 1
    fi
    echo "ci/release.sh: the list of known flaws cannot be had here: $manifest was not held against it" >&2
  fi
done
release/build.sh
"$(find target/handed-out -path '*/bin/coreshard' -type f)" --version
