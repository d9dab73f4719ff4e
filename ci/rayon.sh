#!/usr/bin/env bash
# What rayon's published suites, demos and other people's programs say of adapters/rayon-core: two hours, and the network.
set -euo pipefail
cd "$(dirname "$0")/.."

adapters/rayon-core/check.sh all --times 20 --work target/rayon-check
