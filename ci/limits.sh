# For .ci/run and ci/nightly.sh, which source it: how long each step may take.
# shellcheck shell=bash

# limit_of STEP: seconds, several times its duration on two busy CPUs with nothing built.
limit_of() {
  case "$1${CORESHARD_NIGHTLY:+ at night}" in
    fmt*) echo 300 ;;
    limits_test* | invariants_test* | invariants*) echo 1800 ;;
    clippy* | doc* | msrv* | c_binding | cpp_binding | python*) echo 5400 ;;
    loom*) echo 7200 ;;
    torture) echo 3600 ;;
    test*) echo 10800 ;;
    memcheck* | kills* | sweep* | search* | sanitizers* | c_sanitizers* | rayon*) echo 21600 ;;
    # Some three hours by its own figures.
    torture*) echo 36000 ;;
    # Half an hour for each package, by its own limits.
    aarch64*) echo 36000 ;;
    # Two hours for each target at most, by its own limits.
    fuzz*) echo 172800 ;;
    *) echo 21600 ;;
  esac
}

# limited SECONDS COMMAND...: after that time, ends the command with all its child processes, and reports it.
limited() {
  local seconds=$1 status=0 options=(--kill-after=30)
  shift
  # A user can stop it by Ctrl-C, which only reaches processes in the foreground.
  if [ -t 0 ]; then options+=(--foreground); fi
  timeout "${options[@]}" "$seconds" "$@" || status=$?
  case $status in
    124 | 137) printf '%s: not finished after %d s, which is its limit (ci/limits.sh)\n' "$1" "$seconds" >&2 ;;
  esac
  return "$status"
}
