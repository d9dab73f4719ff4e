#!/usr/bin/env bash
# Tests across the two packages of this name: this one, and the published one that it takes the place of.
#
# Usage: ./cross_tests.sh theirs [CARGO TEST ARGUMENT...]   the published one's integration tests, unmodified, on this one
#        ./cross_tests.sh ours [CARGO TEST ARGUMENT...]     the tests here on the published one: do they ask what it promises?
#        ./cross_tests.sh rayon [CARGO TEST ARGUMENT...]    the unit tests of the published rayon, unmodified, on this one
#
# What is published comes from crates.io, by cargo. Everything is made in target/cross.
set -euo pipefail
cd "$(dirname "$0")"

readonly HERE=$PWD
readonly WORK=$HERE/target/cross
mkdir -p "$WORK/published/src"
export CARGO_TARGET_DIR=$WORK/target

# The folder in which cargo keeps the source of a published package.
# Usage: published NAME VERSION
published() {
  cat >"$WORK/published/Cargo.toml" <<END
[package]
name = "published"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
$1 = "=$2"
END
  touch "$WORK/published/src/lib.rs"
  cargo metadata --quiet --format-version 1 --manifest-path "$WORK/published/Cargo.toml" |
    grep -o "\"manifest_path\":\"[^\"]*/$1-$2/Cargo.toml\"" | head -n 1 | sed 's/.*:"//; s|/Cargo.toml"$||'
}

# Lines of a manifest for the test files of a folder.
# Usage: tests FOLDER
tests() {
  local file
  for file in "$1"/*.rs; do
    printf '[[test]]\nname = "%s"\npath = "%s"\n' "$(basename "$file" .rs)" "$file"
  done
}

# Usage: package NAME EDITION, with the manifest's dependencies and targets on stdin
package() {
  mkdir -p "$WORK/$1/src"
  touch "$WORK/$1/src/lib.rs"
  {
    printf '[package]\nname = "%s"\nversion = "0.0.0"\nedition = "%s"\nautotests = false\n[workspace]\n' "$1" "$2"
    cat
  } >"$WORK/$1/Cargo.toml"
}

case ${1-} in
theirs)
  source=$(published rayon-core 1.13.0)
  {
    printf '[dependencies]\nrayon-core = { path = "%s" }\n' "$HERE"
    printf '[dev-dependencies]\ncrossbeam-utils = "0.8"\nlibc = "0.2"\nscoped-tls = "1"\n'
    tests "$source/tests"
  } | package theirs 2021
  ;;
ours)
  {
    printf '[dependencies]\nrayon-core = "=1.13.0"\n'
    printf '[dev-dependencies]\nlibc = "0.2"\ntesting = { path = "%s/../../ci/testing" }\n' "$HERE"
    # Those that speak of Coreshard stay away.
    tests "$HERE/tests" | paste - - - | grep -v -e beside_queues -e coreshard_environment | tr '\t' '\n'
  } | package ours 2024
  ;;
rayon)
  source=$(published rayon 1.11.0)
  rm -rf "$WORK/rayon"
  cp -r "$source" "$WORK/rayon"
  chmod -R u+w "$WORK/rayon"
  printf '\n[workspace]\n[patch.crates-io]\nrayon-core = { path = "%s" }\n' "$HERE" >>"$WORK/rayon/Cargo.toml"
  rm -f "$WORK/rayon/Cargo.lock"
  ;;
*)
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
which=$1
shift
timeout --kill-after 10 1800 cargo test --no-fail-fast --manifest-path "$WORK/$which/Cargo.toml" "$@"
