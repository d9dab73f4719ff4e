#!/usr/bin/env bash
# Ten thousand small programs on random schedules with random faults, on the simulated machine.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo run --quiet --release -p coreshard-cli -- sim search --seeds 10000
