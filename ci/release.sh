#!/usr/bin/env bash
# What a release needs: what the crates are built of has licences that are allowed and no known flaw; and the crates can be packaged,
# and compile from their packages. What is handed out is built, installed and tried by ci/newcomer.sh.
#
# Usage: ci/release.sh
#
# Needs cargo-deny (cargo install cargo-deny --locked), and the Internet for its list of flaws; without it, the list that was fetched
# last is taken, and where there is none, that is said.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0

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
listed=
for list in "${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/*/.git; do
  listed=$(git --git-dir "$list" log -1 --format=%cs 2>/dev/null || true)
done
if [ -n "$listed" ]; then
  echo "ci/release.sh: the list of known flaws is of $listed"
else
  echo 'ci/release.sh: the list of known flaws cannot be had here: nothing is held against it' >&2
fi
for manifest in Cargo.toml bindings/python/Cargo.toml site/machine/Cargo.toml; do
  echo "ci/release.sh: $manifest"
  deny "$manifest" check bans licenses sources
  if [ -n "$listed" ]; then
    deny "$manifest" --offline check advisories
  fi
done

# A package has its dependencies from the registry. A member that is not published, named with a version, would come from there,
# by its name, from whoever has that name.
cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
members = {member["name"]: member for member in json.load(sys.stdin)["packages"]}
wrong = 0
for member in members.values():
    for needed in member["dependencies"]:
        theirs = members.get(needed["name"])
        if needed.get("path") and theirs and theirs["publish"] == [] and needed["req"] != "*":
            print("ci/release.sh:", member["name"], "names a version of", needed["name"] + ", which is not published", file=sys.stderr)
            wrong = 1
sys.exit(wrong)'

# Cargo takes a package of ours for the one of that version that it has unpacked and compiled before, whatever is in it now.
forget() {
  rm -rf target/packaged "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/coreshard*
  rmdir --ignore-fail-on-non-empty "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-* 2>/dev/null || true
}
trap forget EXIT
forget
CARGO_TARGET_DIR=target/packaged cargo package --workspace --locked --allow-dirty --quiet
echo "ci/release.sh: $(find target/packaged/package -maxdepth 1 -name '*.crate' | wc -l) crates can be packaged, and compile from their packages"
