#!/usr/bin/env bash
# Tests that ci/invariants.sh can fail: breaks each invariant in a small generated workspace, and expects the breach to
# be found and named; and expects no breach in a correct one. Each case runs the one check that must find it; at the end,
# all checks run over a workspace with a breach of each.
set -euo pipefail
CHECK=$(cd "$(dirname "$0")" && pwd)/invariants.sh
readonly CHECK

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
house=$scratch/house

# crate NAME [DEPENDENCY...]: an empty crate with path dependencies
crate() {
  local name=$1 dependency
  shift
  mkdir -p "$house/crates/$name/src"
  {
    printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n' "$name"
    for dependency in "$@"; do printf '%s = { path = "../%s" }\n' "$dependency" "$dependency"; done
  } >"$house/crates/$name/Cargo.toml"
  printf '#![forbid(unsafe_code)]\n' >"$house/crates/$name/src/lib.rs"
}

# A correct workspace, with permitted code that looks like a breach.
build_house() {
  rm -rf "${house:?}"
  if [ -d "$scratch/order" ]; then
    cp -r "$scratch/order" "$house"
    return
  fi
  mkdir "$house"
  printf '[workspace]\nresolver = "2"\nmembers = ["crates/*"]\n' >"$house/Cargo.toml"
  crate coreshard-topology
  crate coreshard-platform coreshard-topology
  crate coreshard-workqueue coreshard-topology coreshard-platform
  crate coreshard-cli coreshard-workqueue coreshard-topology
  cat >"$house/crates/coreshard-cli/src/lib.rs" <<'END'
pub fn main() { println!("{:?}", std::env::args()) }
END
  cat >"$house/crates/coreshard-workqueue/src/lib.rs" <<'END'
//! Like [`std::thread::scope`], with `std::sync::Mutex` and Host in a comment.
mod tests;
pub struct Hooks { on_start: Arc<User<dyn Fn(u32) + Send>> } // not a bare dyn Fn()
pub fn f(monitor: &Monitor) { monitor.wake() }
pub type Outcome = std::thread::Result<()>; // not thread::spawn
coreshard_topology::readable_debug!(<F> Empty<F>);
impl<F> std::error::Error for Empty<F> {}
pub fn waits() -> u64 {
    let began = P::now();
    park();
    P::now().ns_since(began)
}
const _: () = assert!(std::mem::size_of::<Item<platform::Host>>() == 56);
pub fn url() -> &'static str { "https://example.org/work/in/a/link" }
#[cfg(test)]
mod inline {
    use std::sync::Mutex;
    fn f() { println!("{:?}", std::time::Instant::now()) }
}
END
  echo 'use std::thread;' | tee "$house/crates/coreshard-workqueue/src/"{tests,loom_platform}.rs >/dev/null
  cp -r "$house" "$scratch/order"
}

failures=0
cases=0

# expect OUTCOME NAME [CHECK]: runs one check over the workspace, all by default; OUTCOME is "peace" or a part of the breach's
# message
expect() {
  local outcome=$1 name=$2 said status=0
  cases=$((cases + 1))
  said=$(bash "$CHECK" "$house" ${3:+"$3"} 2>&1) || status=$?
  if [ "$outcome" = peace ] && [ "$status" -eq 0 ]; then return; fi
  if [ "$outcome" != peace ] && [ "$status" -eq 1 ] && [[ $said == *"$outcome"* && $said == *': 1 broken'* ]]; then return; fi
  printf 'ci/invariants_test.sh: %s: expected "%s", got status %d and:\n%s\n' \
    "$name" "$outcome" "$status" "$said" >&2
  failures=$((failures + 1))
}

# add FILE LINE: begins a file of the workspace with a line
add() {
  local file=$house/$1 before=''
  mkdir -p "${file%/*}"
  [ ! -e "$file" ] || before=$(<"$file")
  printf '%s\n' "$2" ${before:+"$before"} >"$file"
}

# breaks_when CHECK NAME MESSAGE FILE LINE: adds one line to a file of the correct workspace
breaks_when() {
  build_house
  add "$4" "$5"
  expect "$3" "$2" "$1"
}

build_house
expect peace "a house in order"

readonly QUEUE=crates/coreshard-workqueue/src
readonly STD='coreshard-workqueue uses a thread, lock or clock of std'
breaks_when check_seam "a spawned thread" "$STD" $QUEUE/lib.rs 'fn f() { std::thread::spawn(|| ()); }'
breaks_when check_seam "an imported thread module" "$STD" $QUEUE/pool.rs 'use std::thread;'
breaks_when check_seam "a thread-local" "$STD" $QUEUE/pool.rs 'thread_local! { static X: u8 = 1; }'
breaks_when check_seam "a sleep" "$STD" $QUEUE/pool/worker/mod.rs 'fn f() { thread::sleep(D); }'
breaks_when check_seam "a lock" "$STD" $QUEUE/pool.rs 'static L: std::sync::Mutex<()> = x();'
breaks_when check_seam "a lock among imports" "$STD" $QUEUE/pool.rs 'use std::sync::{Arc, Condvar};'
breaks_when check_seam "a clock" "$STD" $QUEUE/pool.rs 'fn f() { let _ = Instant::now(); }'
build_house
add $QUEUE/pool.rs 'pub struct Pool<P: Platform = Host> {'
add $QUEUE/pool.rs 'use coreshard_platform::{Host, Platform};'
expect peace "a platform that is a parameter's default" check_seam
breaks_when check_seam "a platform by name" 'coreshard-workqueue names one platform' $QUEUE/pool.rs 'type Q = Queue<Host>;'
breaks_when check_causes "a guess" 'an errno that is translated into a text' $QUEUE/pool.rs 'fn f(e: i32) -> &'"'"'static str { match e { libc::EPERM => "be root", _ => "" } }'
breaks_when check_usable "CPUs that are online" 'coreshard-workqueue uses CPUs because they are online' $QUEUE/pool.rs 'fn f(t: &Topology) { run_on(t.online().clone()) }'
breaks_when check_modules "a module that uses one above it" 'pool uses a module above it' $QUEUE/pool/worker/mod.rs 'use crate::queue::Lane;'
breaks_when check_modules "a module that nobody placed" 'a module of the workqueue has no place' $QUEUE/novel.rs 'fn f() {}'
readonly LOUD='coreshard-topology prints, reads arguments or ends the process'
breaks_when check_quiet "a print" "$LOUD" crates/coreshard-topology/src/lib.rs 'fn f() { eprintln!("x"); }'
breaks_when check_quiet "an argument" "$LOUD" crates/coreshard-topology/src/a.rs 'fn f() { std::env::args_os(); }'
breaks_when check_quiet "an exit" "$LOUD" crates/coreshard-topology/src/a.rs 'fn f() { std::process::exit(1); }'
readonly STALE='a time from before a wait is used after it'
breaks_when check_clocks "a deadline from before a wait" "$STALE" $QUEUE/a.rs $'fn f() {\n    let now = Instant::now();\n    self.wait(now);\n    self.accept(now);\n}'
breaks_when check_clocks "a time added to after a wait" "$STALE" $QUEUE/a.rs $'fn f() {\n    let now = P::now();\n    poll(&mut all);\n    self.until = now + TIMEOUT;\n}'
breaks_when check_errors "an error with fields" 'an error that main shows in the form of its fields' $QUEUE/a.rs 'impl std::error::Error for Full {}'
breaks_when check_words "a path of somebody's machine" "a path of somebody's own machine" docs/guide.md 'see /home/me/notes'
breaks_when check_words "a merge that was not finished" 'a merge that was not finished' docs/guide.md '<<<<<<< ours'
breaks_when check_words "a tool's left-over" "a tool's left-over" docs/guide.md.orig 'x'

build_house
mkdir -p "$house/examples"
printf '\177ELF\0\0\n' >"$house/examples/device"
expect 'a file that is no text' "a program" check_words

readonly WILD="users' code that goes another way than through the net"
breaks_when check_users_code "a panic caught by hand" "$WILD" $QUEUE/queue/scope.rs 'fn f() { let _ = std::panic::catch_unwind(|| ()); }'
breaks_when check_unchecked "an index without a bound" 'unchecked arithmetic without a reason' $QUEUE/pool.rs 'fn f(a: &[u8], at: usize) -> u8 { unsafe { *a.get_unchecked(at) } }'
breaks_when check_unchecked "a size that may wrap" 'unchecked arithmetic without a reason' $QUEUE/pool.rs 'fn f(size: usize) -> usize { size.next_power_of_two() }'
breaks_when check_unchecked "a reason for nothing" 'an unchecked operation that is not there' $QUEUE/task/cell.rs 'fn f() {}'
breaks_when check_users_code "a panic thrown on by hand" "$WILD" $QUEUE/queue/scope.rs 'fn f(p: P) { panic::resume_unwind(p) }'
breaks_when check_users_code "a waker that is woken" "$WILD" $QUEUE/timers/mod.rs 'fn f(waker: Waker) { waker.wake() }'
breaks_when check_users_code "wakers that are woken by name" "$WILD" $QUEUE/timers/mod.rs 'fn f() { all.for_each(Waker::wake); }'
breaks_when check_users_code "a poller that is woken" "$WILD" $QUEUE/timers/mod.rs 'fn f(c: &C) { c.waker().wake_by_ref(); }'
breaks_when check_users_code "a handler that is kept bare" "$WILD" $QUEUE/queue/pool_link.rs 'struct S { handler: Box<dyn Fn(u32) + Send> }'
breaks_when check_users_code "an exception that nothing needs" 'an exception that nothing needs' \
  $QUEUE/task/yield_now.rs 'fn f() { /* nothing of a user here */ }'

build_house
mkdir -p "$house/$QUEUE/task"
echo 'fn f(c: &C) { c.waker().wake_by_ref(); }' >"$house/$QUEUE/task/yield_now.rs"
expect peace "an exception that is needed"

build_house
crate coreshard-platform coreshard-topology coreshard-report
crate coreshard-report
expect 'coreshard-platform depends on a crate that is not below it' "an arrow that points up" check_arrows

build_house
crate clap
rm "$house/crates/clap/src/lib.rs" && mkdir "$house/outside" && mv "$house/crates/clap" "$house/outside/clap"
mkdir -p "$house/outside/clap/src" && touch "$house/outside/clap/src/lib.rs"
sed -i 's/members.*/members = ["crates\/*"]\nexclude = ["outside"]/' "$house/Cargo.toml"
crate coreshard-topology
echo 'clap = { path = "../../outside/clap" }' >>"$house/crates/coreshard-topology/Cargo.toml"
status=0
said=$(bash "$CHECK" "$house" check_arrows 2>&1) || status=$?
cases=$((cases + 1))
# All three crates above it also depend on clap.
if [ "$status" -ne 1 ] || ! grep -qF 'coreshard-topology is below the command but depends on' <<<"$said"; then
  printf 'ci/invariants_test.sh: a library with clap: got status %d and:\n%s\n' "$status" "$said" >&2
  failures=$((failures + 1))
fi

build_house
crate coreshard-helpers
expect 'crates/coreshard-helpers has no place in the house' "a crate nobody planned" check_arrows

build_house
printf '[features]\ncanaries = []\n' >>"$house/crates/coreshard-workqueue/Cargo.toml"
sed -i 's|coreshard-workqueue" }|coreshard-workqueue", features = ["canaries"] }|' "$house/crates/coreshard-cli/Cargo.toml"
expect 'coreshard-cli is built with bugs that can be planted' "a planted bug in the command" check_canaries

build_house
crate coreshard coreshard-workqueue
mkdir "$house/outside" "$house/outside/toml" && cp -r "$house/crates/coreshard-topology/src" "$house/outside/toml"
printf '[package]\nname = "toml"\nversion = "0.1.0"\n' >"$house/outside/toml/Cargo.toml"
sed -i 's/members.*/members = ["crates\/*"]\nexclude = ["outside"]/' "$house/Cargo.toml"
echo 'toml = { path = "../../outside/toml", optional = true }' >>"$house/crates/coreshard-workqueue/Cargo.toml"
expect peace "a dependency that is a feature's"
sed -i 's/, optional = true//' "$house/crates/coreshard-workqueue/Cargo.toml"
expect 'queues alone bring one more crate along' "a dependency that queues can do without" check_lean

build_house
crate coreshard coreshard-topology
mkdir -p "$house/bindings/python" && cp -r "$house/crates/coreshard/src" "$house/bindings/python"
printf '%s\n' '[workspace]' '[package]' 'name = "coreshard-python"' 'version = "0.1.0"' \
  '[dependencies]' 'coreshard = { path = "../../crates/coreshard" }' >"$house/bindings/python/Cargo.toml"
expect peace "a library for another language, a workspace of its own"
echo 'coreshard-topology = { path = "../../crates/coreshard-topology" }' >>"$house/bindings/python/Cargo.toml"
expect 'bindings/python depends on another crate of ours than coreshard' "one that goes past the public face" check_bindings
sed -i '$d' "$house/bindings/python/Cargo.toml"
printf '%s\n' '// Collector: it holds no Python object, and' '// nothing else.' '#[pyclass(frozen)]' 'struct A;' >>"$house/bindings/python/src/lib.rs"
expect peace "a Python class that says what its native threads use"
printf '%s\n' '// A comment.' '#[pyclass]' 'struct B;' >>"$house/bindings/python/src/lib.rs"
expect 'a Python class does not say what its native threads may use' "a Python class that says nothing" check_bindings

build_house
mkdir -p "$house/adapters/other/src"
echo 'static KNOWN: PerProcess<OnceLock<u8>> = PerProcess::new();' >"$house/adapters/other/src/lib.rs"
expect peace "an adapter's static that each process has anew"
echo '    static KNOWN: OnceLock<u8> = OnceLock::new();' >>"$house/adapters/other/src/lib.rs"
expect 'adapters/other has a static that a forked process shares with its parent' "an adapter's static that is inherited" check_bindings

build_house
echo 'pub fn read() { std::fs::read_to_string("x").ok(); }' >>"$house/crates/coreshard-cli/src/lib.rs"
expect 'coreshard-cli reads a file without a bound' "a file read without a bound" check_edges

build_house
echo 'pub fn write() { std::fs::write("x", "y").ok(); }' >>"$house/crates/coreshard-cli/src/lib.rs"
expect 'coreshard-cli writes a file on its own' "a file written past the one place" check_edges

build_house
echo 'impl std::str::FromStr for Word {}' >>"$house/crates/coreshard-topology/src/lib.rs"
expect 'words that are parsed but not fuzzed' "a parser that nobody fuzzes" check_edges

build_house
echo '' >"$house/crates/coreshard-topology/src/lib.rs"
expect 'coreshard-topology may hold unsafe code' "unsafe code in pure data" check_unsafe

breaks_when check_tests "a test program that hangs for ever" 'tests that nobody ends if they hang' \
  crates/coreshard-topology/tests/parse.rs '#[test] fn f() {}'
breaks_when check_tests "a crate's tests that hang for ever" 'tests that nobody ends if they hang' \
  crates/coreshard-topology/src/parse.rs '#[cfg(test)] mod inline { #[test] fn f() {} }'
breaks_when check_tests "a test program of several files that hangs for ever" 'tests that nobody ends if they hang' \
  crates/coreshard-topology/tests/all/main.rs '#[test] fn f() {}'
build_house
mkdir -p "$house/crates/coreshard-topology/tests/all"
printf '%s\n' 'testing::watch!();' 'mod found;' >"$house/crates/coreshard-topology/tests/all/main.rs"
touch "$house/crates/coreshard-topology/tests/all/"{found,lost}.rs
expect 'tests that are in no program' "a file of tests that no program has" check_tests
build_house
mkdir "$house/crates/coreshard-topology/tests"
printf '%s\n' 'testing::watch!();' 'fn f() { eprintln!("left out, since there is none"); }' \
  >"$house/crates/coreshard-topology/tests/parse.rs"
expect 'a test that is left out and not counted' "a test that says by itself that it is left out" check_tests

# Each check is called, and finds only its own breach.
build_house
crate coreshard-helpers
crate coreshard coreshard-workqueue
mkdir -p "$house/bindings/python" "$house/outside/toml" "$house/ci/structure"
cp -r "$house/crates/coreshard-topology/src" "$house/bindings/python"
cp -r "$house/crates/coreshard-topology/src" "$house/outside/toml"
printf '%s\n' '[workspace]' '[package]' 'name = "coreshard-python"' 'version = "0.1.0"' \
  '[dependencies]' 'coreshard-topology = { path = "../../crates/coreshard-topology" }' >"$house/bindings/python/Cargo.toml"
printf '[package]\nname = "toml"\nversion = "0.1.0"\n' >"$house/outside/toml/Cargo.toml"
sed -i 's/members.*/members = ["crates\/*"]\nexclude = ["outside"]/' "$house/Cargo.toml"
printf '%s\n' 'toml = { path = "../../outside/toml" }' '[features]' 'canaries = []' \
  >>"$house/crates/coreshard-workqueue/Cargo.toml"
sed -i 's|coreshard-workqueue" }|coreshard-workqueue", features = ["canaries"] }|' "$house/crates/coreshard-cli/Cargo.toml"
echo 'pub fn read() { std::fs::read_to_string("x").ok(); }' >>"$house/crates/coreshard-cli/src/lib.rs"
echo '' >"$house/crates/coreshard-topology/src/lib.rs"
add $QUEUE/novel.rs 'fn f() {}'
add $QUEUE/pool.rs 'fn f() { let _ = Instant::now(); }'
add $QUEUE/queue/scope.rs 'fn f() { let _ = std::panic::catch_unwind(|| ()); }'
add $QUEUE/work/mod.rs 'fn f(size: usize) -> usize { size.next_power_of_two() }'
add $QUEUE/queue/all.rs 'fn f(t: &Topology) { run_on(t.online().clone()) }'
add $QUEUE/queue/why.rs 'fn f(e: i32) -> &'"'"'static str { match e { libc::EPERM => "be root", _ => "" } }'
add crates/coreshard-topology/src/a.rs 'fn f() { eprintln!("x"); }'
add crates/coreshard-topology/tests/parse.rs '#[test] fn f() {}'
add $QUEUE/pool/a.rs $'fn f() {\n    let now = P::now();\n    park();\n    g(now);\n}'
add $QUEUE/pool/b.rs 'impl Error for Full {}'
add docs/guide.md.orig 'x'
add lab/ablate/switches.patch 'no difference'
add peers/speed.py 'raise SystemExit("figures of another run")'
add ci/prose.py 'raise SystemExit("prose that is worse")'
status=0
said=$(bash "$CHECK" "$house" 2>&1) || status=$?
cases=$((cases + 1))
while IFS= read -r message; do
  if [[ $said != *"$message"* ]]; then
    printf 'ci/invariants_test.sh: a house where all is broken: "%s" was not found\n' "$message" >&2
    status=0
  fi
done <<'END'
crates/coreshard-helpers has no place in the house
bindings/python depends on another crate of ours than coreshard
a module of the workqueue has no place
coreshard-workqueue uses a thread, lock or clock of std
coreshard-workqueue uses CPUs because they are online
an errno that is translated into a text
coreshard-topology prints, reads arguments or ends the process
coreshard-topology may hold unsafe code
users' code that goes another way than through the net
coreshard-cli reads a file without a bound
queues alone bring one more crate along
coreshard-cli is built with bugs that can be planted
tests that nobody ends if they hang
a time from before a wait is used after it
an error that main shows in the form of its fields
a tool's left-over
`structure`
the switches of the ablation do not apply
figures of another run
prose that is worse
END
found=$(sed -nE 's/^ci\/invariants.sh: ([0-9]+) broken$/\1/p' <<<"$said")
if [ "$status" -ne 1 ] || [ "$found" != "$(grep -c '^check_[a-z_]*() {$' "$CHECK")" ]; then
  printf 'ci/invariants_test.sh: a house where all is broken: one breach of each check was expected, got:\n%s\n' "$said" >&2
  failures=$((failures + 1))
fi

if [ "$failures" -gt 0 ]; then exit 1; fi
echo "ci/invariants_test.sh: $cases cases as expected"
