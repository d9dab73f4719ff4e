#!/usr/bin/env bash
# Tests that a step that hangs is ended with its child processes, and reported with its limit; and that other steps are not.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/limits.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  printf 'ci/limits_test.sh: %s\n' "$1" >&2
  exit 1
}

cat >"$folder/hangs.sh" <<'END'
#!/usr/bin/env bash
sleep 1000 &
echo $! >"$1"
wait
END
chmod +x "$folder/hangs.sh"
status=0
limited 1 "$folder/hangs.sh" "$folder/child" </dev/null 2>"$folder/said" || status=$?
[ "$status" -eq 124 ] || fail "a step that hangs ended with status $status"
grep -qxF "$folder/hangs.sh: not finished after 1 s, which is its limit (ci/limits.sh)" "$folder/said" ||
  fail "of a step that hangs it is said: $(cat "$folder/said")"
# The child process is ended by a signal, which may take a moment.
for _ in $(seq 600); do
  kill -0 "$(cat "$folder/child")" 2>/dev/null || break
  sleep 0.1
done
! kill -0 "$(cat "$folder/child")" 2>/dev/null || fail 'what a step that hangs has started lives on'

status=0
limited 100 bash -c 'exit 3' 2>"$folder/said" || status=$?
[ "$status" -eq 3 ] || fail "a step that fails with 3 ended with status $status"
[ ! -s "$folder/said" ] || fail "of a step that fails it is said: $(cat "$folder/said")"

[ "$(limit_of torture)" -lt "$(CORESHARD_NIGHTLY=1 limit_of torture)" ] || fail 'a night is no longer than a change'
for step in $(sed -nE "s/^for step in ([a-z_ ]+); do$/\1/p" .ci/run) $(sed -n "s/^readonly STEPS='\(.*\)'$/\1/p" ci/nightly.sh); do
  [ -x "ci/$step.sh" ] || fail "there is no step ci/$step.sh"
  [ "$(limit_of "$step")" -gt 0 ]
done
echo 'ci/limits_test.sh: all cases hold'
