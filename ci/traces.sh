#!/usr/bin/env bash
# What holds of recordings and is too slow for a change: many threads and very many accesses in bounded memory, of which a
# sample tells the same; and the gain that a replay predicts for a mended layout against the gain of mending it, here.
#
# Usage: ci/traces.sh    lab/two_engines.py, which builds other people's programs, is run by hand
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --quiet --release -p coreshard-cli
python3 lab/many_threads.py target/release/coreshard 64 20000
if ! command -v qemu-x86_64 >/dev/null || [ "$(nproc)" -lt 2 ]; then
  echo "ci/traces.sh: no qemu-x86_64 (in Debian: qemu-user), or no second CPU; no gain was predicted" >&2
  exit 0
fi
# What is measured depends on what else the machine does: the table is for the reader.
python3 lab/predict_padding.py target/release/coreshard || echo "ci/traces.sh: see the table above" >&2
