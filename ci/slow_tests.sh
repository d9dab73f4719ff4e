#!/usr/bin/env bash
# Runs the tests that take too long for each change: their names end in `_at_night`. ci/commands.sh runs the commands of pages.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lints.sh

cargo test --workspace --tests -- --ignored _at_night --skip commands::
