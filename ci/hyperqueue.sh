#!/usr/bin/env bash
# Runs the job file of `coreshard sweep hyperqueue` with HyperQueue: a server and two workers on this machine. One worker is
# killed half way. The results must have the same bytes as those of a single process.
#
# Usage: ci/hyperqueue.sh [RUNS]    200 by default; HQ is HyperQueue's program, or else `hq` on the PATH; skipped with a message if
# there is none. (From its sources: cargo build --no-default-features --features microlp --bin hq.)
set -euo pipefail
cd "$(dirname "$0")/.."

hq=${HQ:-$(command -v hq || true)}
if [ -z "$hq" ]; then
  echo 'SKIPPED HyperQueue: there is no hq on the PATH, nor in HQ'
  exit 0
fi
runs=${1:-200}
if [ -z "${CORESHARD_COMMAND:-}" ]; then
  cargo build --release -p coreshard-cli
  CORESHARD_COMMAND=${CARGO_TARGET_DIR:-target}/release/coreshard
fi
coreshard=$(realpath "$CORESHARD_COMMAND")

work=$(mktemp -d)
started=()
# shellcheck disable=SC2329 # it is called at the end
clean() {
  kill "${started[@]}" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap clean EXIT
cd "$work"

study() {
  "$coreshard" sweep plan "$1" --machines pocket --machines 'pack:2 numa:1 l3:1 core:4 pu:1' --scopes cpu,cache_shard --shard-sizes 2,4 \
    --seeds $((runs / 8)) --items 20
}
study one
"$coreshard" sweep status one --missing | xargs -r "$coreshard" sweep run one >/dev/null
study other

export HQ_SERVER_DIR=$work/server
# All traffic stays on this machine.
"$hq" server start --host 127.0.0.1 >server.log 2>&1 &
started+=($!)
for _ in $(seq 100); do "$hq" server info >/dev/null 2>&1 && break; sleep 0.1; done
for worker in 1 2; do
  "$hq" worker start --cpus 1 --detect-resources none --on-server-lost stop >"worker-$worker.log" 2>&1 &
  started+=($!)
done
"$hq" job submit-file "$("$coreshard" sweep hyperqueue other)"
half=$(("$("$coreshard" sweep status one --json | grep -o '"runs": *[0-9]*' | cut -d: -f2)" / 2))
until [ "$(find other/runs -name '*.json' | wc -l)" -ge "$half" ]; do sleep 0.02; done
kill -KILL "${started[1]}"
"$coreshard" sweep status other
"$hq" job wait 1
"$hq" job list --all
"$hq" worker list --all
"$coreshard" sweep gather other
"$coreshard" sweep gather one
cmp one/results.jsonl other/results.jsonl
[ -z "$(ls other/errors)" ] || { head other/errors/* >&2; exit 1; }
"$hq" server stop
echo "ci/hyperqueue.sh: $(wc -l <other/results.jsonl) runs, one worker of two killed half way: the same bytes"
