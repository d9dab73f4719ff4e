#!/usr/bin/env bash
# A process that writes blocks is killed at any moment, 96 times: what it said was written is in the file.
set -euo pipefail
cd "$(dirname "$0")/.."

CORESHARD_NIGHTLY=1 CORESHARD_TEST_LIMIT=7200 cargo test -p coreshard-block --test all kills:: -- --nocapture
