#!/usr/bin/env bash
# Runs all operations at once, with each item accounted for, under every adversity that this machine supports; and lets the
# k-th call of each kind fail. The short form is a test of the workspace (lab/torture/tests/short.rs) and runs with all others.
#
# Usage: ci/torture.sh [MINUTES]    the total time, 15 by default: half of it a soak. CORESHARD_LONG=1 takes four hours.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-${CORESHARD_LONG:+240}}
minutes=${minutes:-15}
if ! [[ $minutes =~ ^[1-9][0-9]*$ && $# -le 1 ]]; then
  echo "ci/torture.sh: invalid MINUTES '$*': expected one whole number, at least 1" >&2
  exit 2
fi
export RUST_BACKTRACE=0
ulimit -c 0
# Others each night.
seed=$(($(date +%s) / 86400 * 1000))
# In four hours 50 runs of each adversity in each build, and every call of each kind.
runs=$((minutes * 50 / 240 + 1)) step=$((240 / minutes))
[ "$step" -gt 0 ] || step=1

cargo build --quiet -p torture
"${CARGO_TARGET_DIR:-target}/debug/torture" under all --runs "$runs" --seconds 2 --seed "$seed"
cargo build --quiet --release -p torture
torture=${CARGO_TARGET_DIR:-target}/release/torture
"$torture" under all --runs "$runs" --seconds 2 --seed "$((seed + 500))"
"$torture" kth all --up-to 2000 --step "$step"
"$torture" kth all --up-to 2000 --step "$step" --in-a-row 10
"$torture" soak --seconds "$((minutes * 30))" --threads 2
