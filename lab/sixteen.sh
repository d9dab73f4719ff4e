#!/usr/bin/env bash
# Compares Coreshard with rayon, tokio, crossbeam-channel and oneTBB on a machine of many CPUs in about six minutes, and simulates the
# same machine. Run it whenever such a machine can be had: the programs are built first, and can be built elsewhere.
#
# Usage: lab/sixteen.sh FOLDER    writes peers.json, machine.toml, simulated.json and a log into FOLDER
set -euo pipefail
folder=$(realpath "${1:?usage: lab/sixteen.sh FOLDER}")
cd "$(dirname "$0")/.."
mkdir -p "$folder"

cargo build --quiet --release --manifest-path peers/Cargo.toml
cargo build --quiet --release -p coreshard-cli -p scaling
target=${CARGO_TARGET_DIR:-target}
peers=${CARGO_TARGET_DIR:-peers/target}/release/coreshard-peers
{
  date --iso-8601=seconds
  git rev-parse HEAD
  "$target/release/coreshard" topo
  # Four minutes: loops and bursts first, where sixteen CPUs differ from two.
  timeout --kill-after=10 240 "$peers" --cpus "$(nproc)" --runs 3 --quick \
    --workloads parallel-for,burst,fork-join,async,ping-pong,flood \
    --peers coreshard,rayon,tokio,crossbeam-channel,onetbb --json "$folder/peers.json" || true
  "$target/release/coreshard" calibrate --output "$folder/machine.toml" --force
  timeout --kill-after=10 90 "$target/release/scaling" --machine "$folder/machine.toml" --seeds 1 --runs 4 \
    --json "$folder/simulated.json" || true
} 2>&1 | tee "$folder/log.txt"
