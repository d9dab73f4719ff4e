#!/usr/bin/env bash
# Does compare.py find what it is there to find? With shell scripts in the programs' place: other bytes, no bytes, a
# wrong exit status, a demo that panics, twice the time.
#
# Usage: adapters/rayon-core/compare_test.sh WATCH
#
# WATCH is the program of that name that check.sh has built: target/rayon-check/bin/watch.
set -euo pipefail
watch=$(realpath "$1")
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder"/bin/{original,patched} "$folder/inputs/blobs/small"
ln -s "$watch" "$folder/bin/watch"
touch "$folder/inputs/blobs/small/0.bin"

# as SIDE PROGRAM: what comes in is that side's program.
as() { { echo '#!/bin/sh'; cat; } >"$folder/bin/$1/$2" && chmod +x "$folder/bin/$1/$2"; }
compare() { python3 compare.py "$1" --bin "$folder/bin" --inputs "$folder/inputs" --turns 3 --only "$2" 2>&1; }

# expect STATUS WORDS WHAT ONLY: that status, and an output that has these words.
expect() {
  local status=0 output
  output=$(compare "$3" "$4") || status=$?
  if [ $status != "$1" ] || ! grep -qF -- "$2" <<<"$output"; then
    printf 'compare_test.sh: expected status %s and "%s", found status %s and:\n%s\n' "$1" "$2" $status "$output" >&2
    exit 1
  fi
}

as original b3sum <<<'echo one'
as patched b3sum <<<'echo one'
expect 0 '| b3sum, 200 files | equal |' programs 'b3sum, 200'
as patched b3sum <<<'echo other'
expect 1 'bytes DIFFER' programs 'b3sum, 200'
as patched b3sum <<<'echo one; exit 3'
expect 1 'exit status 3' programs 'b3sum, 200'
as patched b3sum <<<'kill -ABRT $$'
expect 1 'exit status 128' programs 'b3sum, 200'
as patched b3sum <<<'date +%N'
as original b3sum <<<'date +%N'
expect 1 'differ from run to run' programs 'b3sum, 200'
as original b3sum <<<':'
as patched b3sum <<<':'
expect 1 'wrote no output' programs 'b3sum, 200'

list=$'if [ "$1" = list ]; then printf "some\\tgroup\\twhat it does\\n"; exit; fi\n'
as original rayon-demos <<<"$list"'seq "$2" | sed "s/.*/0.010 0.020/"'
as patched rayon-demos <<<"$list"'seq "$2" | sed "s/.*/0.020 0.020/"'
expect 0 '| some | 10.00 | 20.00 | 2.000 (2.000–2.000) | 1.000 (1.000–1.000) |' demos some
as patched rayon-demos <<<"$list"'echo "the results differ" >&2; exit 101'
expect 1 'exit status 101: the results differ' demos some
as patched rayon-demos <<<"$list"'echo 0.010 0.020'
expect 1 '1 laps of 7' demos some
echo "compare_test.sh: it finds them all"
