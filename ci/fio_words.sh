#!/usr/bin/env bash
# fio's words in `coreshard bench block`, against fio itself: bytes, blocks and times of 57 jobs (peers/fio/words.py).
#
# Usage: ci/fio_words.sh    Skipped with a message without fio. CORESHARD_COMMAND is a built command; otherwise it is built.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v fio >/dev/null; then
  echo 'SKIPPED fio: there is none on the PATH'
  exit 0
fi
if [ -z "${CORESHARD_COMMAND:-}" ]; then
  cargo build --release -p coreshard-cli
  CORESHARD_COMMAND=${CARGO_TARGET_DIR:-target}/release/coreshard
fi
peers/fio/words.py "$(realpath "$CORESHARD_COMMAND")"
