#!/usr/bin/env bash
# The loom models: the interleavings of the small cores whose memory orderings matter. They are compiled with --cfg loom,
# which changes every crate, so they have a separate target folder.
#
# Three models take minutes: the merge check bounds their preemptions (`Loom::check_long`). They are checked in full at
# night, and if a crate with models differs from CORESHARD_BASE, a commit.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/changed.sh

readonly CRATES='coreshard-platform coreshard-workqueue coreshard-block coreshard-rt'
# These options take more time to compile than they save in the models.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0

packages=() modelled=0
for crate in $CRATES; do
  grep -rqs 'cfg(all(test, loom))' "crates/$crate/src" || continue
  packages+=(-p "$crate")
  modelled=$((modelled + 1))
done
if [ "$modelled" -eq 0 ]; then
  echo "ci/loom.sh: no crate has a loom model; the workqueue's intake and its parking must have one" >&2
  exit 1
fi

all=()
if [ -n "${CORESHARD_NIGHTLY:-}" ]; then
  all=(--include-ignored)
  export CORESHARD_LONG_MODELS=1
elif [ -n "${CORESHARD_BASE:-}" ]; then
  # If it is unknown, the crate counts as changed.
  changed=$(changed_since "$CORESHARD_BASE" crates/coreshard-{platform,workqueue,block,rt}/src) || changed=all
  [ -z "$changed" ] || export CORESHARD_LONG_MODELS=1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
  cargo test "${packages[@]}" --features coreshard-platform/loom --release --lib loom -- "${all[@]}" 2>&1 | tee "$log"
# A filter that matches no test passes, and would hide that the models were removed.
ran=$(grep -cE '^running [1-9]' "$log" || true)
if [ "$ran" -ne "$modelled" ]; then
  echo "ci/loom.sh: $modelled crates have modules under cfg(all(test, loom)), and tests named *loom* ran in $ran" >&2
  exit 1
fi
