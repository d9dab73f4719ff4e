#!/usr/bin/env bash
# The architecture's invariants that a compiler does not check. ARCHITECTURE.md says why each holds; what
# is printed here says how to fix a breach.
#
# Usage: ci/invariants.sh [FOLDER [CHECK...]]    FOLDER is the workspace to check, this one by default; CHECK is a
#                                                function below, all of them by default.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

readonly CHECKS='check_arrows check_bindings check_modules check_seam check_usable check_causes check_quiet check_unsafe check_unchecked check_users_code check_edges
  check_lean check_canaries check_tests check_clocks check_errors check_words check_structure check_ablation check_figures check_prose'

# Data that several checks need, made once.
scratch=$(mktemp -d)
structure=''
trap '[ -z "$structure" ] || kill "$structure" 2>/dev/null || true; rm -rf "$scratch"' EXIT

# The crates of the workspace that each crate may depend on. Dependencies only point down.
arrows() {
  cat <<'END'
coreshard-topology
coreshard-results
coreshard-advise     coreshard-topology
coreshard-platform   coreshard-topology
coreshard-workqueue  coreshard-topology coreshard-platform
coreshard-block      coreshard-topology coreshard-platform
coreshard-rt         coreshard-topology coreshard-platform
coreshard-sim        coreshard-topology coreshard-platform
coreshard-bench      coreshard-topology coreshard-results coreshard-platform coreshard-workqueue coreshard-block coreshard-rt coreshard-sim
coreshard-report     coreshard-topology coreshard-results
coreshard-trace      coreshard-topology coreshard-sim
coreshard            coreshard-topology coreshard-platform coreshard-workqueue coreshard-block coreshard-rt coreshard-sim
coreshard-cli        *
END
}

# Crates that print for users or end the process; only for the command.
readonly FOR_THE_COMMAND='anyhow|clap|clap_builder|console|crossterm|eyre|indicatif|ratatui|ratatui-core'

# All other crates that a program with only queues compiles. None of them may depend on rayon, which some programs
# run on Coreshard.
readonly FOR_QUEUES='autocfg byteorder hdrhistogram libc num-traits once_cell pin-project-lite tracing tracing-core'

# Crates that run on any platform, so that threads, locks and clocks are the platform's.
readonly BEHIND_THE_SEAM='coreshard-workqueue coreshard-block coreshard-rt coreshard-bench'

# Crates without unsafe code.
readonly WITHOUT_UNSAFE='coreshard-topology coreshard-advise coreshard-results coreshard-bench coreshard-report coreshard-trace'

# Crates that call users' code: closures, destructors, hooks, handlers, wakers, payloads, probes.
readonly CALLS_USERS='coreshard-platform coreshard-workqueue coreshard-block coreshard-rt'

# Files that call or store user code without coreshard_platform::user, and why that is right. A path that ends in /
# covers all files below it. A line that its file does not need is also a breach.
another_way() {
  cat <<'END'
crates/coreshard-platform/src/user.rs             it is the net
crates/coreshard-workqueue/src/base/budget.rs     wakes its own poller, inside its poll: what that throws is its own
crates/coreshard-workqueue/src/task/yield_now.rs  as in budget.rs
crates/coreshard-workqueue/src/work/work_core.rs       a work item's function: Token::run calls it through the net, the item's Drop drops it there
crates/coreshard-workqueue/src/queue/change.rs    the closures are this file's own
crates/coreshard-workqueue/src/pool/jobs/job_list.rs closures of this crate's, which call a user's through the net
crates/coreshard-workqueue/src/pool/members.rs     on the thread that makes a team: its names before anything is reserved, its starts through the net
crates/coreshard-workqueue/src/pool/start.rs       the bodies of our own threads
crates/coreshard-workqueue/src/team/               as in jobs.rs and team_set.rs; nothing of a builder's is called or dropped elsewhere
crates/coreshard-workqueue/src/callbacks.rs        what is left to be called: through the net, here
crates/coreshard-block/src/backend/channel.rs      a channel's waker: each caller of it is in front of the net, or is the channel's own thread
crates/coreshard-block/src/backend/pool.rs         a pool's job: its code is this crate's, and the executor that takes it is in front of the net
crates/coreshard-block/src/queue/outbox.rs         a callback: this file calls it through the net, and nobody drops it uncalled
crates/coreshard-block/src/tags/                   the waker of a port: a channel's, called through the net
crates/coreshard-rt/src/executor/handle.rs         makes a task's body, which calls the user's through the net
crates/coreshard-rt/src/executor/shared.rs         a task's body, made in handle.rs: threads call it through the net
crates/coreshard-rt/src/executor/priority_array.rs as in shared.rs
crates/coreshard-rt/src/executor/periodic.rs       a period's function: periodic_thread.rs calls and drops it through the net
END
}

breaches=0

# breach WHAT WHERE REMEDY
breach() {
  printf 'invariant broken: %s\n    %s\n  to fix it: %s\n\n' "$1" "${2//$'\n'/$'\n    '}" "$3" >&2
  breaches=$((breaches + 1))
}

# The code of the Rust sources that stdin names: without comments, and without the tests, which are last in their file.
# Lines keep their numbers. $1 is the file to write to; CRATE in it is replaced by the crate's name.
code_of() {
  LC_ALL=C xargs -r -d '\n' awk -v to="$1" '
    FNR == 1 { split(FILENAME, part, "/"); out = to; sub(/CRATE/, part[2], out); attribute = -1; is_over = 0 }
    is_over { next }
    /^[[:space:]]*#\[cfg\((all\()?test/ { attribute = FNR; next }
    attribute == FNR - 1 && /^[[:space:]]*(pub[^ ]* )?mod [a-z_]+ *\{/ { is_over = 1; next }
    /\/\// { sub(/^[[:space:]]*\/\/.*/, ""); sub(/[[:space:]]\/\/ .*/, "") }
    /[^[:space:]]/ { print FILENAME ":" FNR ": " $0 >>out }
  '
}

# The code of every crate, without files that only have tests.
read_crates() {
  mkdir "$scratch/code"
  find crates -regex 'crates/[^/]*/src/.*\.rs' | sort |
    { grep -vE '/tests/|/tests\.rs$|_tests\.rs$|/loom_.*\.rs$' || true; } |
    code_of "$scratch/code/CRATE"
}

# The lines of code in crate $1 that match the extended regular expression $2.
lines_with() {
  # Matches bytes, which is several times as fast.
  LC_ALL=C grep -asE -- "$2" "$scratch/code/$1" || true
}

# The crates that crate $1 is built from, one name a line; $2 are further options of cargo tree.
dependencies() {
  # shellcheck disable=SC2086 # the options are words
  cargo tree --quiet -p "$1" -e normal,build --prefix none --format '{p}' $2 | tail -n +2 |
    awk '{ print $1 }' | sort -u
}

# The crates of this workspace, one name a line.
crates() {
  find crates -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort
}

# The dependencies of all crates if the workspace is built at once: lines `CRATE DEPTH DEPENDENCY`, with DEPTH 1 or more. In
# such a build, a crate has each feature that any other turns on: so it has at least the dependencies of a separate build.
all_dependencies() {
  cargo tree --quiet --workspace -e normal,build --no-dedupe --prefix depth --format '{p}' |
    awk '
      !match($1, /^[0-9]+/) { next }
      { depth = substr($1, 1, RLENGTH) + 0; name = substr($1, RLENGTH + 1) }
      depth == 0 { root = name; print root, 0, root; next }
      !seen[root, depth == 1, name]++ { print root, depth, name }
    '
}

check_arrows() {
  local crate allowed depth name down wrong
  local -A below=() known=() suspects=()
  while read -r crate allowed; do below[$crate]="$crate $allowed"; done < <(arrows)
  all_dependencies >"$scratch/dependencies"
  while read -r crate depth name; do
    known[$crate]=1
    if [[ $depth -eq 1 && $name == coreshard* && " ${below[$crate]:-} " != *" $name "* ||
      $depth -ge 1 && $name =~ ^($FOR_THE_COMMAND)$ ]]; then
      suspects[$crate]=1
    fi
  done <"$scratch/dependencies"
  for crate in $(crates); do
    allowed=${below[$crate]:-}
    if [ -z "$allowed" ]; then
      breach "crates/$crate has no place in the house" "arrows() in ci/invariants.sh does not name it" \
        "make it a module of a crate there is; or add a line to arrows() and a paragraph to ARCHITECTURE.md"
      continue
    fi
    case "$allowed" in *'*') continue ;; esac
    # The separate build's dependencies, only for a suspect.
    [ -n "${suspects[$crate]:-}" ] || [ -z "${known[$crate]:-}" ] || continue
    down=$(dependencies "$crate" '--depth 1')
    wrong=$(grep -E '^coreshard' <<<"$down" | grep -vxF "$(tr ' ' '\n' <<<"$allowed" | grep .)" || true)
    if [ -n "$wrong" ]; then
      breach "$crate depends on a crate that is not below it" "$wrong" \
        "move what is needed down, or pass it in through a trait or a value; arrows point down only"
    fi
    wrong=$(dependencies "$crate" '' | grep -xE "$FOR_THE_COMMAND" || true)
    if [ -n "$wrong" ]; then
      breach "$crate is below the command but depends on what only the command may have" "$wrong" \
        "return typed errors and values, and let coreshard-cli parse, print and show progress"
    fi
  done
}

# The libraries for other languages only translate calls.
check_bindings() {
  local folder down wrong
  # A forked process inherits its parent's statics, and their locks in the state at the fork.
  for folder in adapters/*/; do
    [ -d "${folder}src" ] || continue
    wrong=$(grep -rnE 'static [A-Z_]+: *([a-z_]+::)*(Once|OnceLock|LazyLock|Mutex|RwLock|Condvar)\b' "${folder}src" || true)
    if [ -n "$wrong" ]; then
      breach "${folder%/} has a static that a forked process shares with its parent" "$wrong" \
        "wrap it in coreshard_platform::PerProcess"
    fi
  done
  for folder in bindings/*/; do
    [ -e "${folder}Cargo.toml" ] || continue
    # By its manifest: some are separate workspaces.
    down=$(cargo tree --quiet --manifest-path "${folder}Cargo.toml" -e normal,build --depth 1 --prefix none --format '{p}')
    wrong=$(tail -n +2 <<<"$down" | awk '{ print $1 }' | grep -E '^coreshard-' || true)
    if [ -n "$wrong" ]; then
      breach "${folder%/} depends on another crate of ours than coreshard" "$wrong" \
        "lean on the public face, as a user's program does; what is missing there is to be added there"
    fi
    # Native threads use objects that Python's collector may take for garbage.
    [ -d "${folder}src" ] || continue
    wrong=$(find "${folder}src" -name '*.rs' -exec awk '
      /#\[pyclass/ && !says { print FILENAME ":" FNR ": " $0 }
      { says = /^ *\/\/ Collector: / || (says && /^ *\/\/ /) }' {} + | sort)
    if [ -n "$wrong" ]; then
      breach "a Python class does not say what its native threads may use" "$wrong" \
        "write \"// Collector: ...\" above #[pyclass]: which Python objects a native thread reaches through it, and why the \
collector cannot clear them meanwhile"
    fi
  done
}

# Modules of the workqueue, from the bottom up: each uses only earlier ones.
readonly WORKQUEUE_MODULES='base intake insight config callbacks pool fork timers queue task work runtime team'

check_modules() {
  local folder=crates/coreshard-workqueue/src module above file found
  [ -d "$folder" ] || return 0
  for file in "$folder"/*; do
    module=${file##*/}
    module=${module%.rs}
    case "$module" in lib | README.md | *tests | loom_*) continue ;; esac
    if [[ " $WORKQUEUE_MODULES " != *" $module "* ]]; then
      breach "a module of the workqueue has no place" "$file" \
        "say in WORKQUEUE_MODULES of ci/invariants.sh above which others it stands"
    fi
  done
  find "$folder" -name '*.rs' ! -name '*tests.rs' | sort | code_of "$scratch/workqueue"
  above="$WORKQUEUE_MODULES "
  for module in $WORKQUEUE_MODULES; do
    above=${above#"$module "}
    [ -n "$above" ] || break
    found=${above% }
    found=$(LC_ALL=C grep -asE "^$folder/$module(\.rs:|/).*\\bcrate::(${found// /|})\\b" "$scratch/workqueue" || true)
    if [ -n "$found" ]; then
      breach "$module uses a module above it" "$found" \
        "move what is needed down, or pass it in through a trait, a table of functions or a value; arrows point down only"
    fi
  done
}

check_seam() {
  local crate found
  local threads='thread_local!|\bthread::(spawn|Builder|scope|park|sleep|yield_now|current|JoinHandle)|use std::thread\b'
  local locks='std::sync::(Mutex|RwLock|Condvar|Barrier|Once)\b|std::sync::\{[^}]*\b(Mutex|RwLock|Condvar|Barrier)\b'
  local clocks='\b(Instant|SystemTime)::now|\bsleep_until\b'
  for crate in $BEHIND_THE_SEAM; do
    [ -d "crates/$crate/src" ] || continue
    # hyper's timers have a method of that name.
    found=$(lines_with "$crate" "$threads|$locks|$clocks" | grep -vE 'fn sleep_until\(' || true)
    if [ -n "$found" ]; then
      breach "$crate uses a thread, lock or clock of std" "$found" \
        "take it from the platform (P::spawn, Lock, P::local, P::now, P::wait), else a simulated machine cannot run this code"
    fi
    [ "$crate" = coreshard-bench ] && continue
    # A layout may be asserted for a platform at compile time: that is not code that runs. And the parameter of a public type may
    # have a default, with an import: code that runs names no platform.
    found=$(lines_with "$crate" '\b(Host|Sim)\b' |
      grep -vE 'assert!\(.*(size|align)_of::<|pub struct [A-Za-z]+<.*= Host> \{$|use coreshard_platform::\{[A-Za-z, ]*\bHost\b' || true)
    if [ -n "$found" ]; then
      breach "$crate names one platform" "$found" "be generic over P: Platform; the crate coreshard chooses Host"
    fi
  done
}

# A runtime that takes the machine's CPUs leaves the cpuset and undoes the user's taskset.
check_usable() {
  local crate found line
  for crate in coreshard-workqueue coreshard-rt; do
    [ -d "crates/$crate/src" ] || continue
    found=''
    while IFS= read -r line; do
      # These name the online CPUs in an error.
      [[ $line == *src/queue/machine.rs:* || $line == *src/error.rs:* ]] && continue
      grep -q 'P::process_cpus()' "${line%%:*}" || found+=$line$'\n'
    done < <(lines_with "$crate" '\bonline(\(\))?\.clone\(\)')
    if [ -n "$found" ]; then
      breach "$crate uses CPUs because they are online" "${found%$'\n'}" \
        "intersect them with P::process_cpus(): a process may use fewer"
    fi
  done
}

# An errno has several causes: only the files listed here may interpret one.
check_causes() {
  local crate found line all='' path reason
  local -A excepted=()
  while read -r path reason; do excepted[$path]=1; done <<'END'
crates/coreshard-platform/src/host/cause.rs          looks causes up
crates/coreshard-block/src/cause.rs                  looks causes up
crates/coreshard-block/src/request/io_error.rs       says what the layer itself did after a time limit of its own
crates/coreshard-cli/src/common/destination.rs       looks whether it is a pipe
crates/coreshard-cli/src/common/output.rs            nothing is said: whoever reads has gone
crates/coreshard-advise/src/measure/tracefs.rs       looks which user it is
END
  for crate in $(crates); do
    [ -s "$scratch/code/$crate" ] || continue
    found=$(LC_ALL=C awk '
      $0 ~ /(libc::E[A-Z0-9]+|Errno::[A-Z]+|[^A-Za-z]ErrorKind::[A-Z][A-Za-z]+|Some\(E[A-Z]+\))[^=]*=>/ { left = 2; arm = $0 }
      left > 0 && /"/ { print arm; left = 0 }
      left > 0 { left-- }
    ' "$scratch/code/$crate")
    while IFS= read -r line; do
      [ -z "$line" ] || [ -n "${excepted[${line%%:*}]:-}" ] || all+=$line$'\n'
    done <<<"$found"
  done
  if [ -n "$all" ]; then
    breach "an errno that is translated into a text" "${all%$'\n'}" \
      "give the plain error, or look the cause up and name it with what was found; then say so in check_causes"
  fi
}

check_quiet() {
  local crate found
  for crate in $(crates); do
    [ "$crate" = coreshard-cli ] && continue
    found=$(lines_with "$crate" '\benv::args(_os)?\b|\bprocess::(exit|abort)\b|\be?print(ln)?!|\bio::(stdin|stdout|stderr)\(')
    if [ -n "$found" ]; then
      breach "$crate prints, reads arguments or ends the process" "$found" \
        "return a value or a typed error; only coreshard-cli speaks to a person"
    fi
  done
}

check_unsafe() {
  local crate
  for crate in $WITHOUT_UNSAFE; do
    [ -d "crates/$crate" ] || continue
    grep -qxF '#![forbid(unsafe_code)]' "crates/$crate/src/lib.rs" ||
      breach "$crate may hold unsafe code" "crates/$crate/src/lib.rs" "begin it with #![forbid(unsafe_code)]"
  done
}

# Files with unchecked indices, conversions or pointer arithmetic, or sizes that could wrap, and why each is sound. A line that
# its file does not need is also a breach.
unchecked() {
  cat <<'END'
crates/coreshard-block/src/backend/channel.rs            start and count of one list of pieces, by the contract of Channel::start
crates/coreshard-block/src/backend/memory.rs             as in channel.rs; `parts` stays within the piece
crates/coreshard-block/src/backend/ring/setup.rs         `build` bounds the depth
crates/coreshard-block/src/buffer.rs                     `BufferPool::new` checks stride * count; lengths come from a Vec or a checked layout
crates/coreshard-block/src/node_slice.rs                 `new` checks length * size
crates/coreshard-platform/src/platform/node_memory.rs    offsets within the checked length
crates/coreshard-sim/src/space/allocator.rs              the caller of realloc promises a valid layout
crates/coreshard-workqueue/src/fork/loops.rs             a small multiple of a pool's workers
crates/coreshard-workqueue/src/insight/sampling.rs       bounded by MAX_ITEMS_PER_SAMPLE
crates/coreshard-workqueue/src/task/cell.rs              a task's own address, and its pinned future
crates/coreshard-workqueue/src/timers/timeout.rs         pin projection
crates/coreshard-workqueue/src/work/embedded/works.rs    `leak` bounds the number of stripes
bindings/python/src/pools.rs                             bounded by MOST_WORKERS
END
}

check_unchecked() {
  local path reason listed='' found
  local unsound='_unchecked(_mut)?\(|from_raw_parts|\bunsafe \{ .*\.(add|sub|offset|byte_add|byte_sub|byte_offset)\(|\.next_power_of_two\('
  found=$(grep -rlE --include=*.rs "$unsound" crates/*/src bindings/*/src adapters/*/src 2>/dev/null | grep -vE '(^|/)tests?\.rs$|_tests\.rs$|/tests/' | sort || true)
  while read -r path reason; do
    listed+=$path$'\n'
    [ ! -e "$path" ] || grep -qxF "$path" <<<"$found" ||
      breach "an unchecked operation that is not there" "$path  $reason" "take its line out of unchecked() in ci/invariants.sh"
  done < <(unchecked)
  found=$(grep -vxF "$listed" <<<"$found" | grep . || true)
  if [ -n "$found" ]; then
    breach "unchecked arithmetic without a reason" "$found" \
      "check it (checked_*, a slice's get, TryFrom), or say in unchecked() why it cannot go wrong"
  fi
}

# A panic that is caught by hand may be lost or resumed twice, or its payload may panic at an unexpected place.
check_users_code() {
  local crate found='' path reason key excepted=''
  local nets='\b(catch_unwind|resume_unwind)\b'
  local wakers='\.wake_by_ref\(|\bWaker::wake(_by_ref)?\b|[Ww]aker[A-Za-z_]*(\(\))?\.wake\(\)'
  local kept='\bdyn Fn(Mut|Once)?\b'
  for crate in $CALLS_USERS; do
    [ -d "crates/$crate/src" ] || continue
    found+=$(lines_with "$crate" "$nets|$wakers")$'\n'
    # The platform only keeps the bodies of the library's threads as closures.
    [ "$crate" = coreshard-platform ] && continue
    found+=$(lines_with "$crate" "$kept" | grep -vE "\bUser<dyn Fn" || true)$'\n'
  done
  found=$(grep . <<<"$found" || true)
  while read -r path reason; do
    [ -e "$path" ] || continue
    key=$path
    case "$path" in */) ;; *) key+=: ;; esac
    if [ -f "$path" ] && [[ $found != *"$key"* ]]; then
      breach "an exception that nothing needs" "$path  $reason" "take its line out of another_way() in ci/invariants.sh"
    fi
    excepted+=${excepted:+$'\n'}$key
  done < <(another_way)
  [ -z "$excepted" ] || found=$(grep -vF -- "$excepted" <<<"$found" || true)
  if [ -n "$found" ]; then
    breach "users' code that goes another way than through the net" "$found" \
      "call it by coreshard_platform::user::call, wake by user::wake, drop by user::discard, rethrow by Thrown::resume, keep it as a user::User; or say in another_way() why this is right"
  fi
}

# Input from outside and output to it each pass a single place.
check_edges() {
  local crate found line parsed
  local -A fuzzed=()
  for crate in coreshard-topology coreshard-advise coreshard-results coreshard-sim coreshard-report coreshard-trace coreshard-cli; do
    [ -d "crates/$crate/src" ] || continue
    found=$(lines_with "$crate" '\bfs::read(_to_string)?\(|\bFile::open\b|\bread_to_(end|string)\(' |
      grep -vE '^crates/coreshard-(topology/src/input|cli/src/common/destination|advise/src/measure/tracefs)\.rs:' || true)
    if [ -n "$found" ]; then
      breach "$crate reads a file without a bound" "$found" \
        "use coreshard_topology::input, which refuses pipes and devices and says how long a file may be"
    fi
    found=$(lines_with "$crate" '\bfs::(write|rename|copy)\(|\bFile::create|\bOpenOptions\b' |
      grep -vE '^crates/coreshard-(cli/src/(common/destination|bench/rt/options|record/(engine|library))|advise/src/measure/tracefs)\.rs:' || true)
    if [ -n "$found" ]; then
      breach "$crate writes a file on its own" "$found" \
        "use Destination, which writes over nothing that the command did not make"
    fi
  done
  # Parsers of words are fuzzed: their errors are short and have no control characters, for any word.
  while read -r parsed; do fuzzed[$parsed]=1; done < <(grep -ohsE '[A-Za-z0-9_]+' fuzz/src/targets.rs | sort -u)
  found=''
  for crate in $(crates); do
    [ "$crate" = coreshard-cli ] && continue
    while IFS= read -r line; do
      parsed=$line
      [[ $line =~ .*[^A-Za-z0-9_]FromStr\ for\ ([A-Za-z]+) ]] && parsed=${BASH_REMATCH[1]}
      [ -n "${fuzzed[$parsed]:-}" ] || found+=$line$'\n'
    done < <(lines_with "$crate" '\bFromStr for ')
  done
  if [ -n "$found" ]; then
    breach "words that are parsed but not fuzzed" "${found%$'\n'}" "add the type to words() in fuzz/src/targets.rs"
  fi
}

# Features are only for code that needs dependencies.
check_lean() {
  local wrong
  [ -d crates/coreshard ] || return 0
  wrong=$(dependencies coreshard --no-default-features | grep -vE '^coreshard(-|$)' |
    grep -vxF "$(tr ' ' '\n' <<<"$FOR_QUEUES")" || true)
  if [ -n "$wrong" ]; then
    breach "queues alone bring one more crate along" "$wrong" \
      "put what needs it behind a feature of crates/coreshard; or add it to FOR_QUEUES in ci/invariants.sh, and to docs/ARCHITECTURE.md what it costs"
  fi
}

# Planted bugs are only for tests of bug finders.
check_canaries() {
  local crate found built=()
  for crate in coreshard coreshard-cli; do
    [ ! -d "crates/$crate" ] || built+=(-p "$crate")
  done
  [ "${#built[@]}" -gt 0 ] || return 0
  # Together they have each feature that one of them turns on.
  found=$(cargo tree --quiet "${built[@]}" -e normal,build,features | grep -F '"canaries"' || true)
  [ -n "$found" ] || return 0
  for crate in coreshard coreshard-cli; do
    [ -d "crates/$crate" ] || continue
    found=$(cargo tree --quiet -p "$crate" -e normal,build,features | grep -F '"canaries"' | sort -u || true)
    if [ -n "$found" ]; then
      breach "$crate is built with bugs that can be planted" "$found" \
        "turn the feature canaries on in [dev-dependencies] alone"
    fi
  done
}

# The files of the project: the tracked ones, or all if this folder is not a checkout.
project_files() {
  if [ -e .git ]; then git ls-files -z; else find . -type f -not -path './target/*' -print0; fi
}

# A clock reading that is used after a wait as if it were current: added to, or passed on. Subtracting it, for the elapsed time,
# is fine.
check_clocks() {
  local found
  found=$(cat "$scratch"/code/* | awk '
    { file = $0; sub(/:[0-9]+: .*/, "", file); line = $0; sub(/^[^:]*:[0-9]+: /, "", line) }
    file != last || line ~ /(^| )fn [a-z_]/ { split("", waited); last = file }
    match(line, /let (mut )?[a-z_]+ = [A-Za-z:]+::now\(\);/) {
      name = line; sub(/.*let (mut )?/, "", name); sub(/ = .*/, "", name); waited[name] = 0; next
    }
    {
      for (name in waited) {
        if (!waited[name]) continue
        use = line
        gsub("- " name "[,)]|(since|or)\\(" name "\\)|mut " name "[^a-z_]|[.]" name, "", use)
        if (use ~ "(^|[^A-Za-z_0-9.\"])" name "( \\+|[,)])") print $0
      }
    }
    line ~ /(^|[^a-z_])(poll|(wait|park|sleep|recv)(_[a-z]+)?|accept)\(/ { for (name in waited) waited[name] = 1 }')
  if [ -n "$found" ]; then
    breach "a time from before a wait is used after it" "$found" "read the clock after the wait"
  fi
}

# A main function that returns an error prints it with Debug.
check_errors() {
  local found
  found=$(cat "$scratch"/code/* | awk '
    { file = $0; sub(/:[0-9]+: .*/, "", file); line = $0; sub(/^[^:]*:[0-9]+: /, "", line); split(file, part, "/") }
    line ~ /readable_debug!\(|^impl(<.*>)? ([a-z_]+::)*Debug for/ {
      name = line; sub(/.*(readable_debug!\((<[^>]*> )?|Debug for )/, "", name); sub(/[^A-Za-z0-9_].*/, "", name); readable[part[2], name] = 1
    }
    line ~ /^impl(<.*>)? ([a-z_]+::)*Error for [A-Z]/ && part[2] != "coreshard-cli" {
      name = line; sub(/.* for /, "", name); sub(/[^A-Za-z0-9_].*/, "", name); errors[part[2], name] = $0
    }
    END { for (it in errors) if (!(it in readable)) print errors[it] }' | sort)
  if [ -n "$found" ]; then
    breach "an error that main shows in the form of its fields" "$found" \
      "take Debug out of its derive, and write coreshard_topology::readable_debug!(ITS NAME);"
  fi
}

check_words() {
  local found
  found=$(project_files | xargs -0 grep -nIE '(^|[^A-Za-z0-9_.~-])/(home|root|Users|work)/[A-Za-z]' -- 2>/dev/null |
    grep -v '^\(\./\)\?ci/invariants' | cut -c1-200 || true)
  if [ -n "$found" ]; then
    breach "a path of somebody's own machine" "$found" \
      "write it relative to the repository, or let the test make its files in a temporary folder"
  fi
  found=$(project_files | xargs -0 grep -nIE '^(<<<<<<<|>>>>>>>)( |$)' -- 2>/dev/null | cut -c1-200 || true)
  if [ -n "$found" ]; then
    breach "a merge that was not finished" "$found" "resolve it and remove the markers"
  fi
  found=$(project_files | tr '\0' '\n' | grep -E '(\.(orig|rej|bak|swp)|~)$' || true)
  if [ -n "$found" ]; then
    breach "a tool's left-over" "$found" "remove it"
  fi
  # The seeds of fuzzing may be any bytes.
  found=$(project_files | grep -zv '/corpus/' | xargs -0 sh -c 'for file; do [ ! -f "$file" ] || [ ! -s "$file" ] || echo "$file"; done' sh |
    xargs -d '\n' grep -LI '' -- || true)
  if [ -n "$found" ]; then
    breach "a file that is no text" "$found" "remove it: programs, packages and recordings are made, not kept"
  fi
}

# A test that hangs must fail, and a skipped test must be counted: ci/testing does both.
check_tests() {
  local file folder part found unread='' named tested watched
  found=$(grep -LsxF 'testing::watch!();' {crates,examples,lab,adapters,ci}/*/tests/{*.rs,*/main.rs} {judges,peers}/tests/{*.rs,*/main.rs} || true)
  found+=${found:+$'\n'}
  # The compiler ignores a file that no module names.
  for file in {crates,examples,lab,adapters,ci}/*/tests/*/main.rs {judges,peers}/tests/*/main.rs; do
    [ -e "$file" ] || continue
    named=$(grep -owhE 'mod [A-Za-z0-9_]+;' "${file%/*}"/*.rs || true)
    for part in "${file%/*}"/*.rs; do
      folder=${part##*/}
      [ "$part" = "$file" ] || [[ $'\n'$named$'\n' == *$'\n'"mod ${folder%.rs};"$'\n'* ]] || unread+=$part$'\n'
    done
  done
  if [ -n "$unread" ]; then
    breach "tests that are in no program" "${unread%$'\n'}" "write mod and the file's name into main.rs beside it"
  fi
  tested=$(grep -rls '#\[test\]' {crates,examples,lab,ci}/*/src {judges,peers}/src || true)
  watched=$(grep -lsxF 'testing::watch!();' {crates,examples,lab,ci}/*/src/{lib,main}.rs {judges,peers}/src/{lib,main}.rs || true)
  for folder in {crates,examples,lab,ci}/*/ judges/ peers/; do
    [[ $'\n'$tested == *$'\n'"${folder}src/"* ]] || continue
    # The helper crate cannot name itself.
    [ "$folder" = ci/testing/ ] && continue
    [[ $'\n'$watched$'\n' == *$'\n'"${folder}src/"@(lib|main).rs$'\n'* ]] || found+=${folder}src$'\n'
  done
  if [ -n "$found" ]; then
    breach "tests that nobody ends if they hang" "${found%$'\n'}" \
      "write the line testing::watch!(); in the root of each test program (under #[cfg(test)] in that of a crate)"
  fi
  found=$(LC_ALL=C grep -rnE --include=*.rs '\be?print(ln)?!\("(skipped|SKIPPED|left out|NOT RUN)\b' crates examples judges 2>/dev/null |
    grep -E '/tests/|tests?\.rs:|skipped: no|left out, since' || true)
  if [ -n "$found" ]; then
    breach "a test that is left out and not counted" "$found" "say it by testing::skip"
  fi
}

# Circles of files and folders, modules with too many neighbours, and duplicate type names of a crate: parsed like the
# compiler does, while the other checks run.
start_structure() {
  [ -d ci/structure ] || return 0
  cargo run -q -p structure >"$scratch/structure" 2>"$scratch/structure.err" &
  structure=$!
}

check_structure() {
  [ -n "$structure" ] || return 0
  wait "$structure" || breaches=$((breaches + 1))
  structure=''
  cat "$scratch/structure"
  cat "$scratch/structure.err" >&2
}

# The README has the figures of the last full run.
check_figures() {
  [ -e peers/speed.py ] || return 0
  python3 peers/speed.py --check || breaches=$((breaches + 1))
}

# lab/ablate/ablate.py switches off the heuristics that there are.
check_ablation() {
  [ -e lab/ablate/switches.patch ] || return 0
  local lost
  lost=$(git apply --check lab/ablate/switches.patch 2>&1) ||
    breach "the switches of the ablation do not apply to this code" "$lost" \
      "apply lab/ablate/switches.patch with --reject, mend what is rejected, and store the difference"
}

# Prose gets no worse, see docs/CONTRIBUTING.md.
check_prose() {
  [ -e ci/prose.py ] || return 0
  { python3 ci/prose.py --test && python3 ci/prose.py; } || breaches=$((breaches + 1))
}

checks=("${@:2}")
# shellcheck disable=SC2206 # the names are words
[ "${#checks[@]}" -gt 0 ] || checks=($CHECKS)
for check in "${checks[@]}"; do
  if [[ " ${CHECKS//$'\n'/ } " != *" $check "* ]]; then
    echo "ci/invariants.sh: there is no $check" >&2
    exit 2
  fi
  [ "$check" != check_structure ] || start_structure
done
read_crates
for check in "${checks[@]}"; do "$check"; done

if [ "$breaches" -gt 0 ]; then
  printf 'ci/invariants.sh: %d broken\n' "$breaches" >&2
  exit 1
fi
echo "ci/invariants.sh: all hold"
