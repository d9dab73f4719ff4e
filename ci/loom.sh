#!/usr/bin/env bash
# The loom models: every interleaving of the small cores whose memory orderings matter. They are compiled
# with --cfg loom, which changes every crate, so they have a target folder of their own. At night also those that take
# minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

# These take longer to compile with than the models gain by them.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0

log=$(mktemp)
trap 'rm -f "$log"' EXIT
modelled=0
all=()
[ -z "${CORESHARD_NIGHTLY:-}" ] || all=(--include-ignored)
for crate in coreshard-workqueue coreshard-rt coreshard-platform coreshard-block; do
  grep -rqs 'cfg(all(test, loom))' "crates/$crate/src" || continue
  # The others' manifests turn it on where they are modelled.
  features=()
  [ "$crate" != coreshard-platform ] || features=(--features loom)
  RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
    cargo test -p "$crate" "${features[@]}" --release --lib loom -- "${all[@]}" 2>&1 | tee "$log"
  # A filter that matches no test passes, and would hide that the models are gone.
  if ! grep -Eq '^running [1-9]' "$log"; then
    echo "ci/loom.sh: $crate has modules under cfg(all(test, loom)), but no test named *loom* ran" >&2
    exit 1
  fi
  modelled=$((modelled + 1))
done
if [ "$modelled" -eq 0 ]; then
  echo "ci/loom.sh: no crate has a loom model; the workqueue's intake and its parking must have one" >&2
  exit 1
fi
