#!/usr/bin/env bash
# Runs ten thousand small programs with random schedules and faults on the simulated machine.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo run --quiet --release -p coreshard-cli -- sim search --seeds 10000
