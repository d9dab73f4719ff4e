#!/usr/bin/env bash
# The tests, by the very command that the README gives.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --workspace
