#!/usr/bin/env bash
# What rayon's own suites, demos and published programs say of this adapter, from nothing.
#
#   core      rayon-core's integration tests, unit tests and documentation examples, as published, several times:
#             with the pool as wide as the machine, with eight threads, and beside busy processes
#   rayon     rayon's whole suite, as published: unit, integration and documentation tests; then without the last, with
#             eight threads, and beside busy processes
#   suites    what other published packages ask of rayon in their own tests
#   demos     demos/, built twice, in turns: time and CPU time against the original (a table)
#   programs  published programs, built twice, in turns: equal bytes, time, CPU time, memory, threads (a table)
#   all       all of these
#
# Usage: adapters/rayon-core/check.sh [STEP ...] [OPTIONS]
#
#   --core patched|original  original: the same without the adapter, which shows what is the suites' own doing;
#                            demos and programs then hold the original against itself, which shows the noise
#   --times N                how often `core` runs each suite in a row (3)
#   --turns N                how many turns `demos` and `programs` take (11)
#   --only REGEX             the demos, programs or packages whose names match
#   --work FOLDER            where everything goes: packages, builds, logs, tables (target/rayon-check)
#   --adapter FOLDER         the package that takes rayon-core's place (the one beside this script)
#   --quick                  small inputs: shows that it works, says nothing about time
#
# Needs cargo and the registry's packages (over the network, once), Python 3.9, GNU coreutils, and cc for some of
# the programs. Nothing outside of the work folder and cargo's own is written. Each command has a time limit;
# what failed is named at the end, and the exit status is 1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)

core=patched times=3 turns=11 only=. quick= adapter=$here
work=${RAYON_CHECK_WORK:-$repository/target/rayon-check}
steps=()
while [ $# -gt 0 ]; do
  case $1 in
    --core) core=$2; shift ;;
    --times) times=$2; shift ;;
    --turns) turns=$2; shift ;;
    --only) only=$2; shift ;;
    --work) work=$2; shift ;;
    --adapter) adapter=$(cd "$2" && pwd); shift ;;
    --quick) quick=--quick ;;
    core | rayon | suites | demos | programs) steps+=("$1") ;;
    all) steps+=(core rayon suites demos programs) ;;
    -h | --help) sed -n '2,/^set -/{/^set -/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "check.sh: what is $1? See --help" >&2; exit 2 ;;
  esac
  shift
done
[ ${#steps[@]} -gt 0 ] || steps=(core rayon suites demos programs)
case $core in
  original) patch=() ;;
  patched)
    if ! [ -f "$adapter/Cargo.toml" ]; then
      echo "check.sh: no package in $adapter; --core original does without" >&2
      exit 2
    fi
    patch=(--config "patch.crates-io.rayon-core.path='$adapter'")
    ;;
  *) echo "check.sh: --core is patched or original" >&2; exit 2 ;;
esac

mkdir -p "$work/logs" "$work/bin" "$work/tables"
work=$(cd "$work" && pwd)
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
jobs=$(nproc)
failures=()
load=()

# --- Small things that everything below uses -----------------------------------------------------------------------

say() { printf '%s\n' "$*" | tee -a "$work/summary-$core.txt"; }

fail() {
  failures+=("$1")
  say "FAILED $1"
}

# limited SECONDS NAME COMMAND...: the command with a limit; its output goes to logs/NAME. Yields its status. (It reads
# nothing: some tests read what they are given, which would be the rest of a list.)
limited() {
  local seconds=$1 name=$2 status=0
  shift 2
  nice -n 3 timeout --kill-after=30 "$seconds" "$@" </dev/null >"$work/logs/$name" 2>&1 || status=$?
  case $status in
    0) ;;
    124 | 137) echo "$name: not finished after $seconds s" ;;
    *) echo "$name: exit status $status" ;;
  esac
  if [ $status != 0 ]; then
    echo "  (log: $work/logs/$name)"
    grep -aE '^error|panicked at|FAILED|has been running for over|^---- ' "$work/logs/$name" | head -20 | sed 's/^/  | /' || true
  fi
  return $status
}

# counted NAME...: the sums of cargo test's result lines in these logs.
counted() {
  local logs=("${@/#/$work/logs/}")
  awk '/^test result:/ { binaries++
         for (i = 1; i < NF; i++) {
           if ($(i+1) ~ /^passed/) p += $i
           if ($(i+1) ~ /^failed/) f += $i
           if ($(i+1) ~ /^ignored/) n += $i } }
       END { printf "%d passed, %d failed, %d ignored (%d test programs)", p, f, n, binaries }' "${logs[@]}"
}

# fetched NAME VERSION SHA256: prints where cargo has put the package.
fetched() {
  local file
  (cd "$work" && timeout 300 cargo info --quiet --registry crates-io "$1@$2" >/dev/null)
  file=$(ls "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"$1-$2.crate" | head -n 1)
  echo "$3  $file" | sha256sum --check --quiet >&2 || { echo "$1 $2 is not what was published" >&2; return 1; }
  echo "$file"
}

# unpacked SIDE NAME VERSION SHA256: fresh, as published, below work/SIDE. The one thing added says that it is a
# workspace of its own, and in no other's, above all not in the repository's.
unpacked() {
  local side=$1 file
  file=$(fetched "$2" "$3" "$4") || return 1
  rm -rf "${work:?}/$side/$2-$3"
  mkdir -p "$work/$side"
  tar -xzf "$file" -C "$work/$side"
  grep -q '^\[workspace\]' "$work/$side/$2-$3/Cargo.toml" || printf '\n[workspace]\n' >>"$work/$side/$2-$3/Cargo.toml"
}

# rightly_linked SIDE FOLDER [CARGO OPTIONS]: does the package get the scheduler that this side is to have?
rightly_linked() {
  local side=$1 folder=$2 tree options=()
  shift 2
  [ "$side" = original ] || options=("${patch[@]}")
  tree=$(cd "$folder" && cargo tree "${options[@]}" "$@" --edges all --invert rayon-core --depth 0 2>&1) || { echo "$tree"; return 1; }
  case $side in
    original) grep -qx 'rayon-core v1\.13\.0' <<<"$tree" || { echo "$folder: $tree"; return 1; } ;;
    patched) grep -qF "rayon-core v1.13.0 ($adapter)" <<<"$tree" || { echo "$folder: $tree"; return 1; } ;;
  esac
}

begin_load() {
  local i
  for i in $(seq $((jobs * 2))); do
    timeout 3600 sh -c 'while :; do :; done' &
    load+=($!)
  done
}

end_load() {
  local pid
  for pid in "${load[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${load[@]}"; do wait "$pid" 2>/dev/null || true; done
  load=()
}
trap end_load EXIT

took() { say "  ($1: $((SECONDS - $2)) s)"; }

# --- core: rayon-core's own suites ---------------------------------------------------------------------------------

CORE="rayon-core 1.13.0 22e18b0f0062d30d4230b2e85ff77fdfe4326feb054b9783a3460d8435c8ab91"
RAYON="rayon 1.12.0 fb39b166781f92d482534ef4b4b1b2568f42613b53e5b6c160e24cfbfa30926d"

# A crate that has rayon-core as a dependency, and what rayon-core's own tests have.
scratch() {
  mkdir -p "$1/src"
  cat >"$1/Cargo.toml" <<TOML
[package]
name = "$2"
version = "0.0.0"
edition = "2021"
publish = false

[workspace]

[dependencies]
rayon-core = "=1.13.0"

[dev-dependencies]
crossbeam-utils = "0.8"
libc = "0.2"
rand = "0.9"
rand_xorshift = "0.4"
scoped-tls = "1.0"
TOML
}

# without NAMES: what comes in less these test functions.
without() {
  awk -v names="$1" '
    BEGIN { split(names, list, ","); for (i in list) out["fn " list[i] "() {"] = 1 }
    /^#\[/ { held = held $0 "\n"; next }
    $0 in out { skipping = 1; held = "" }
    !skipping { printf "%s%s\n", held, $0; held = "" }
    /^}/ { skipping = 0 }'
}

step_core() {
  local side=$core suites=$work/$core/suites sources=$work/download/rayon-core-1.13.0 file suite setting turn name begun
  # shellcheck disable=SC2086
  unpacked download $CORE
  rm -rf "$suites"
  scratch "$suites/integration" core-integration
  echo "//! Only tests." >"$suites/integration/src/lib.rs"
  cp -r "$sources/tests" "$suites/integration/tests"

  scratch "$suites/unit" core-unit
  cp "$here/suites/unit.rs" "$suites/unit/src/lib.rs"
  for file in $(cd "$sources/src" && find . -name test.rs); do
    mkdir -p "$suites/unit/src/$(dirname "$file")"
    without workers_stop,sleeper_stop <"$sources/src/$file" >"$suites/unit/src/$file"
  done

  scratch "$suites/docs" core-docs
  python3 "$here/suites/docs.py" "$sources/src" >"$suites/docs/src/lib.rs"

  export CARGO_TARGET_DIR=$work/target/$side
  for suite in integration unit docs; do
    begun=$SECONDS
    local options=() build=(--no-run)
    [ $suite != docs ] || options=(--doc) build=(--lib --no-run)
    if ! (cd "$suites/$suite" && limited 900 "core-$suite-build-$side" cargo test -j "$jobs" "${patch[@]}" "${build[@]}" &&
      rightly_linked "$side" "$suites/$suite"); then
      fail "core: $suite does not build"
      continue
    fi
    took "core, $suite, build" $begun
    for setting in plain eight-threads loaded; do
      # Examples run for themselves; once more or less tells nothing.
      [ $suite != docs ] || [ $setting = plain ] || continue
      local logs=() wrong=0
      begun=$SECONDS
      [ $setting != loaded ] || begin_load
      for turn in $(seq "$times"); do
        name=core-$suite-$setting-$turn-$side
        logs+=("$name")
        local environment=()
        [ $setting != eight-threads ] || environment=(RAYON_NUM_THREADS=8)
        (cd "$suites/$suite" && limited 600 "$name" env "${environment[@]}" cargo test -j "$jobs" "${patch[@]}" --no-fail-fast "${options[@]}") || wrong=$((wrong + 1))
      done
      [ $setting != loaded ] || end_load
      say "core, $suite, $setting, $times times: $(counted "${logs[@]}"); $wrong runs failed"
      took "core, $suite, $setting" $begun
      [ $wrong = 0 ] || fail "core: $suite, $setting, $wrong of $times runs"
    done
  done
}

# --- rayon: its whole suite ----------------------------------------------------------------------------------------

step_rayon() {
  local setting name status begun
  # shellcheck disable=SC2086
  unpacked "$core" $RAYON
  export CARGO_TARGET_DIR=$work/target/$core
  cd "$work/$core/rayon-1.12.0"
  for setting in everything eight-threads loaded; do
    # The examples of the documentation are each compiled, which takes long: once is enough.
    local options=(--lib --tests) environment=()
    case $setting in
      everything) options=() ;;
      eight-threads) environment=(RAYON_NUM_THREADS=8) ;;
      loaded) begin_load ;;
    esac
    name=rayon-$setting-$core begun=$SECONDS status=0
    limited 3600 "$name" env "${environment[@]}" cargo test -j "$jobs" "${patch[@]}" --no-fail-fast "${options[@]}" || status=$?
    [ $setting != loaded ] || end_load
    say "rayon, $setting: $(counted "$name")"
    took "rayon, $setting" $begun
    [ $status = 0 ] || fail "rayon: its suite, $setting"
  done
  rightly_linked "$core" . || fail "rayon: another scheduler was linked"
  cd "$repository"
}

# --- suites: other packages' tests ---------------------------------------------------------------------------------

# listed FILE: the lines of a list that are no remarks and whose names match --only.
listed() { grep -v '^#' "$1" | grep -v '^$' | awk -F'|' -v only="$only" '$1 ~ only' | sed 's/ *| */|/g'; }

# locked FOLDER: goes there; its lock file, with the scheduler's version that the adapter stands for.
locked() {
  cd "$1"
  [ -f Cargo.lock ] || timeout 300 cargo generate-lockfile --quiet
  timeout 300 cargo update --quiet --package rayon-core --precise 1.13.0
}

step_suites() {
  local name version sum features skipped begun status test skip
  export CARGO_TARGET_DIR=$work/target/$core
  while IFS='|' read -r name version sum features skipped; do
    begun=$SECONDS status=0 skip=()
    for test in $skipped; do skip+=(--skip "$test"); done
    # shellcheck disable=SC2086
    unpacked "$core" "$name" "$version" "$sum" &&
      (locked "$work/$core/$name-$version" &&
        limited 1800 "suite-$name-$core" cargo test -j "$jobs" "${patch[@]}" --no-fail-fast $features -- "${skip[@]}" &&
        rightly_linked "$core" . $features) || status=1
    say "suite of $name $version${skipped:+, without $skipped}: $(counted "suite-$name-$core")"
    took "$name" $begun
    [ $status = 0 ] || fail "suites: $name"
  done < <(listed "$here/programs/suites")
}

# --- demos and programs: the same source with either scheduler, in turns -------------------------------------------

# The sides that are to be built: the original always.
sides() { if [ "$core" = original ]; then echo original; else echo original patched; fi; }

# What runs the programs and says what they cost.
step_tools() {
  local begun=$SECONDS
  export CARGO_TARGET_DIR=$work/target/original
  mkdir -p "$work/bin/original"
  limited 900 tools cargo build --release -j "$jobs" --manifest-path "$here/demos/Cargo.toml" --bin watch || return 1
  # A run may have the old one open.
  install "$CARGO_TARGET_DIR/release/watch" "$work/bin/watch.new" && mv "$work/bin/watch.new" "$work/bin/watch"
  took tools $begun
}

step_demos() {
  local side begun options
  step_tools || { fail "demos: the watcher does not build"; return; }
  for side in $(sides); do
    begun=$SECONDS
    options=()
    [ "$side" = original ] || options=("${patch[@]}")
    # Each side has its own lock file.
    rm -rf "${work:?}/$side/demos"
    mkdir -p "$work/$side" "$work/bin/$side"
    cp -r "$here/demos" "$work/$side/demos"
    rm -rf "$work/$side/demos/target"
    export CARGO_TARGET_DIR=$work/target/$side
    if ! (cd "$work/$side/demos" && limited 900 "demos-build-$side" cargo build --release -j "$jobs" "${options[@]}" &&
      rightly_linked "$side" .); then
      fail "demos: $side does not build"
      return
    fi
    cp "$CARGO_TARGET_DIR/release/rayon-demos" "$work/bin/$side/"
    took "demos, $side, build" $begun
  done
  begun=$SECONDS
  if timeout --kill-after=30 7200 python3 "$here/compare.py" demos --bin "$work/bin" --patched "$core" --turns "$turns" \
    --only "$only" $quick --out "$work/tables/demos-$core${quick:+-quick}.md"; then
    say "demos: $work/tables/demos-$core${quick:+-quick}.md"
  else
    fail "demos: the comparison"
  fi
  took demos $begun
}

step_programs() {
  local side begun name version sum build binary options missing=0
  step_tools || { fail "programs: the watcher does not build"; return; }
  for side in $(sides); do
    export CARGO_TARGET_DIR=$work/target/$side
    mkdir -p "$work/bin/$side"
    options=()
    [ "$side" = original ] || options=("${patch[@]}")
    while IFS='|' read -r name version sum binary build; do
      begun=$SECONDS
      # shellcheck disable=SC2086
      if unpacked "$side" "$name" "$version" "$sum" &&
        (locked "$work/$side/$name-$version" &&
          limited 1800 "program-$name-$side" cargo build --release -j "$jobs" "${options[@]}" --bins $build &&
          rightly_linked "$side" . $build); then
        cp "$CARGO_TARGET_DIR/release/$binary" "$work/bin/$side/"
      else
        missing=$((missing + 1))
        fail "programs: $name with the $side core does not build"
      fi
      took "$name, $side, build" $begun
    done < <(listed "$here/programs/packages")
  done
  begun=$SECONDS
  limited 900 inputs python3 "$here/programs/inputs.py" "$work/inputs" $quick || { fail "programs: inputs"; return; }
  if timeout --kill-after=30 14400 python3 "$here/compare.py" programs --bin "$work/bin" --patched "$core" --turns "$turns" \
    --only "$only" --inputs "$work/inputs" --out "$work/tables/programs-$core${quick:+-quick}.md"; then
    say "programs: $work/tables/programs-$core${quick:+-quick}.md"
  else
    fail "programs: the comparison (bytes that differ, or runs that failed)"
  fi
  took programs $begun
}

: >"$work/summary-$core.txt"
for step in "${steps[@]}"; do
  "step_$step"
done
say "$core: ${#failures[@]} failures"
for name in "${failures[@]}"; do say "  $name"; done
[ ${#failures[@]} = 0 ]
