#!/usr/bin/env bash
# Does a newcomer's first steps, from a fresh clone of the committed files, on an empty machine: the README's two commands, its test
# command, its packages, and the two commands and the first program of each other language's README. The machine is a bare Debian
# in a folder (debootstrap) with a C linker and this machine's Rust toolchain, an empty home and no downloads. Without root, only
# the home is empty, and the script reports it.
#
# Usage: ci/newcomer.sh [STEP...]    steps: try, test, package, languages; all by default
#        KEEP=1 ci/newcomer.sh       keeps the folder, and prints its path
#
# Needs the Internet (crates; Debian's packages), some 15 GB, and for the bare machine root's rights and debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."

steps=("$@")
[ $# -gt 0 ] || steps=(try test package languages)
for step in "${steps[@]}"; do
  case $step in try | test | package | languages) ;; *)
    echo "ci/newcomer.sh: there is no step '$step'; the steps are: try, test, package, languages" >&2
    exit 2
    ;;
  esac
done

place=$(mktemp -d "${TMPDIR:-/tmp}/coreshard-newcomer-XXXXXX")
# shellcheck disable=SC2329 # it is called at the end
clean() {
  if [ -n "${KEEP:-}" ]; then echo "ci/newcomer.sh: it is in $place"; else rm -rf "$place"; fi
}
trap clean EXIT

machine=$place/machine
toolchain=$(rustc --print sysroot)
is_bare=
if [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null; then
  is_bare=1
  # shellcheck disable=SC1091 # every Debian has it
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
  include=gcc,libc6-dev,python3,ca-certificates
  # The tools of C, C++ and Python developers.
  case " ${steps[*]} " in *' languages '*) include+=,g++,pkg-config,python3-venv ;; esac
  debootstrap --variant=minbase --include="$include" "$release" "$machine" >"$place/debootstrap.log" 2>&1 ||
    { tail -n 20 "$place/debootstrap.log" >&2; exit 1; }
  # Names and certificates of this network.
  cp -L /etc/resolv.conf /etc/hosts "$machine/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$machine/etc/ssl/certs/"
  mkdir -p "$machine/opt/rust" "$machine/opt/newcomer"
else
  echo 'ci/newcomer.sh: not root, or no debootstrap: the machine is this one, with an empty home' >&2
  mkdir -p "$machine/opt/newcomer"
fi
git clone --quiet --no-local . "$machine/opt/newcomer/coreshard"
git -C "$machine/opt/newcomer/coreshard" log -1 --format='ci/newcomer.sh: %h %s'

# on_machine COMMAND: runs it in the clone, as a newcomer would.
on_machine() {
  printf '\n$ %s\n' "$1"
  local began=$SECONDS
  if [ -n "$is_bare" ]; then
    # The mounts end with the namespace.
    # shellcheck disable=SC2016 # for the shell in there
    unshare --mount --pid --fork sh -ec '
      mount --bind "$2" "$1/opt/rust"
      mount -o remount,ro,bind "$1/opt/rust"
      mount -t proc proc "$1/proc"
      mount --rbind /sys "$1/sys"
      mount --rbind /dev "$1/dev"
      exec chroot "$1" env -i HOME=/opt/newcomer USER=newcomer TERM=dumb LANG=C.UTF-8 \
        PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -ec "cd /opt/newcomer/coreshard; $3"
    ' sh "$machine" "$toolchain" "$1" || return
  else
    env -i HOME="$machine/opt/newcomer" USER="${USER:-$(id -un)}" TERM=dumb LANG=C.UTF-8 PATH="$toolchain/bin:/usr/local/bin:/usr/bin:/bin" \
      sh -ec "cd '$machine/opt/newcomer/coreshard'; $1" || return
  fi
  printf '(%d s)\n' "$((SECONDS - began))"
}

# commands_of README: its first shell program, which has two lines.
commands_of() {
  mapfile -t commands < <(awk '/^```sh$/ { is_in = 1; next } /^```/ { if (is_in) exit } is_in' "$1" | sed 's/ *#.*//')
  if [ "${#commands[@]}" -ne 2 ]; then
    echo "ci/newcomer.sh: $1 shows ${#commands[@]} commands first, not two" >&2
    exit 1
  fi
}

# The prefix that the READMEs' commands install to, as install.sh prints at its end.
# shellcheck disable=SC2016 # for the shell in there
readonly INSTALLED='export LD_LIBRARY_PATH=$HOME/.local/lib PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig;'
# shellcheck disable=SC2016
readonly VENV='PATH=$HOME/venv/bin:$PATH;'

for step in "${steps[@]}"; do
  case $step in
    try)
      commands_of README.md
      for command in "${commands[@]}"; do on_machine "$command"; done
      on_machine 'ls -l coreshard-bench.html'
      ;;
    test)
      # As in the README.
      grep -q 'cargo test --workspace' README.md
      on_machine 'cargo test --workspace'
      ;;
    package)
      grep -q 'release/build.sh' README.md
      on_machine 'release/build.sh'
      if [ -n "$is_bare" ]; then
        # The package is installed on a machine without Rust.
        on_machine 'dpkg --install target/handed-out/coreshard_*.deb && PATH=/usr/bin:/bin coreshard --version && PATH=/usr/bin:/bin coreshard advise'
        on_machine 'gunzip -t /usr/share/man/man1/coreshard*.1.gz && ls /usr/share/bash-completion/completions/coreshard'
        # Only the program: no library, no shell, no system files.
        on_machine 'mkdir /opt/nothing && cp /usr/bin/coreshard /opt/nothing/ && chroot /opt/nothing /coreshard topo --machine grace'
      fi
      ;;
    languages)
      # As in the READMEs.
      for language in c cpp python; do
        commands_of bindings/$language/README.md
        environment=
        if [ $language = python ]; then
          on_machine 'python3 -m venv "$HOME/venv"'
          environment=$VENV
        fi
        for command in "${commands[@]}"; do on_machine "$environment $command"; done
      done
      on_machine "$INSTALLED"' cc -O2 -o "$HOME/treesize" bindings/c/examples/treesize.c $(pkg-config --cflags --libs coreshard); "$HOME/treesize" bindings'
      on_machine "$INSTALLED"' c++ -std=c++20 -O2 -o "$HOME/duplicates" bindings/cpp/examples/duplicates.cpp $(pkg-config --cflags --libs coreshard-cpp); "$HOME/duplicates" bindings | tail -n 1'
      # The README's first program, outside of the source folder.
      awk '/^```python$/ { is_in = 1; next } /^```/ { if (is_in) exit } is_in' bindings/python/README.md >"$machine/opt/newcomer/first.py"
      on_machine "$VENV"' cd "$HOME"; python3 first.py'
      ;;
  esac
done
echo
echo "ci/newcomer.sh: ${steps[*]}: as the README says"
