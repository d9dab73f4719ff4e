#!/usr/bin/env bash
# Checks before a release: the dependencies have permitted licences and no known vulnerability, and the crates can be packaged and
# compile from their packages. ci/newcomer.sh builds, installs and tries the release files.
#
# Usage: ci/release.sh
#
# Needs cargo-deny (cargo install cargo-deny --locked), and the Internet for its list of vulnerabilities. Without the Internet, it
# uses the list that was fetched last, and reports it if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0

if ! cargo deny --version >/dev/null 2>&1; then
  echo 'ci/release.sh: there is no cargo-deny (cargo install cargo-deny --locked)' >&2
  exit 1
fi
# deny MANIFEST WORD...: checks all of them against the same list.
deny() {
  cargo deny --manifest-path "$1" --config "$PWD/deny.toml" "${@:2}"
}
deny Cargo.toml fetch db >/dev/null 2>&1 || true
# An older list is better than none.
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

# A package takes its dependencies from the registry. An unpublished member with a version would be taken from there by its name,
# which another person may own.
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

# Cargo reuses an unpacked and compiled package with the same version, even if its contents have changed.
forget() {
  rm -rf target/packaged "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/coreshard*
  rmdir --ignore-fail-on-non-empty "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-* 2>/dev/null || true
}
trap forget EXIT
forget
CARGO_TARGET_DIR=target/packaged cargo package --workspace --locked --allow-dirty --quiet
echo "ci/release.sh: $(find target/packaged/package -maxdepth 1 -name '*.crate' | wc -l) crates can be packaged, and compile from their packages"
