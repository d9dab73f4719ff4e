#!/usr/bin/env bash
# Every command that the site and the README show is run, each once, and how long each takes is said; those that are quick are
# run by the test `commands`, with all tests. site/commands.toml says what is run in place of a command, and what nobody runs.
#
# Usage: ci/commands.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# What is measured is measured with what is handed out. The test that starts it is not measured, so it need not be quick.
export CARGO_INCREMENTAL=0
cargo build --quiet --release -p coreshard-cli
CORESHARD_COMMAND=$PWD/target/release/coreshard CORESHARD_TEST_LIMIT=20000 \
  cargo test -p coreshard-cli --test all commands:: -- --ignored --nocapture
