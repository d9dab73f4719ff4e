#!/usr/bin/env bash
# Every operation at once, each item accounted for, under every adversity that this machine can make; and the k-th
# call of each kind fails. What the machine cannot make is said at the end of its line.
#
# Usage: ci/torture.sh [short|full]    half a minute, or about three hours: 100 runs of each adversity, every k up to
#                                      2,000 of each kind, alone and ten in a row, and a soak of an hour.
set -euo pipefail
cd "$(dirname "$0")/.."

length=${1:-${CORESHARD_NIGHTLY:+full}}
length=${length:-short}
export RUST_BACKTRACE=0
ulimit -c 0
case "$length" in
  short)
    # The build that the tests have made: debug assertions are on.
    cargo build --quiet -p torture
    torture=target/debug/torture
    "$torture" under all --runs 2 --seconds 0.7
    "$torture" kth all --up-to 600 --step 60 --operations 30
    ;;
  full)
    cargo build --quiet -p torture
    target/debug/torture under all --runs 50 --seconds 2
    cargo build --quiet --release -p torture
    torture=target/release/torture
    "$torture" under all --runs 50 --seconds 2 --seed 1001
    "$torture" kth all --up-to 2000
    "$torture" kth all --up-to 2000 --in-a-row 10
    "$torture" soak --seconds 3600 --threads 2
    ;;
  *)
    echo "ci/torture.sh: $length is neither short nor full" >&2
    exit 2
    ;;
esac
