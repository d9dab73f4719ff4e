#!/usr/bin/env bash
# What a release needs: the crates can be packaged, and compile from their packages; what they are built of has licences that are
# allowed and no known flaw; and the program that is handed out can be made and says its version.
#
# Usage: ci/release.sh
#
# Needs cargo-deny (cargo install cargo-deny --locked), and the Internet for its list of flaws; without it, the list that was fetched
# last is taken, and where there is none, that is said.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo package --workspace --locked --allow-dirty --quiet
if ! cargo deny --version >/dev/null 2>&1; then
  echo 'ci/release.sh: there is no cargo-deny (cargo install cargo-deny --locked)' >&2
  exit 1
fi
# deny MANIFEST WORD...: all of them are held against one list of what is allowed.
deny() {
  cargo deny --manifest-path "$1" --config "$PWD/deny.toml" "${@:2}"
}
deny Cargo.toml fetch db >/dev/null 2>&1 || true
# One that was fetched before is better than none.
lists=("${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/*/.git)
if [ -d "${lists[0]}" ]; then
  echo "ci/release.sh: the list of known flaws is of $(git --git-dir "${lists[0]}" log -1 --format=%cs)"
else
  echo 'ci/release.sh: the list of known flaws cannot be had here: nothing is held against it' >&2
fi
for manifest in Cargo.toml adapters/rayon-core/Cargo.toml site/machine/Cargo.toml; do
  deny "$manifest" check bans licenses sources
  if [ -d "${lists[0]}" ]; then
    deny "$manifest" --offline check advisories
  fi
done
release/build.sh
"$(find target/handed-out -path '*/bin/coreshard' -type f)" --version
