#!/usr/bin/env bash
# Every command that the site and the README show is run; those that are quick are so by the test `commands`, with all tests.
# site/commands.toml says what is run in place of a command, and what nobody runs.
#
# Usage: ci/commands.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# What is measured is measured with what is handed out.
cargo build --quiet --release -p coreshard-cli
CORESHARD_TEST_LIMIT=20000 cargo test --release -p coreshard-cli --test commands -- --include-ignored
