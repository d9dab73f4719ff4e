#!/usr/bin/env bash
# Kills a process that writes blocks at a random moment, 96 times: all blocks that it reported as written must be in the file.
set -euo pipefail
cd "$(dirname "$0")/.."

CORESHARD_NIGHTLY=1 CORESHARD_TEST_LIMIT=7200 cargo test -p coreshard-block --test all kills:: -- --nocapture
