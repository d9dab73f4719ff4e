#!/usr/bin/env bash
# Runs every command that the site and the README show, once each, and prints its duration. The test `commands` runs the quick
# ones with all tests. site/commands.toml lists replacements of commands, and commands that are not run.
#
# Usage: ci/commands.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# Measurements use the release build. The test that starts it is not measured, so it need not be quick.
export CARGO_INCREMENTAL=0
cargo build --quiet --release -p coreshard-cli
CORESHARD_COMMAND=$PWD/target/release/coreshard CORESHARD_TEST_LIMIT=20000 \
  cargo test -p coreshard-cli --test all commands:: -- --ignored --nocapture
