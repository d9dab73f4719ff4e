#!/usr/bin/env bash
# What a newcomer does, from a fresh clone of what is committed here, on a machine that has nothing: the README's two commands, its
# test command, its packages, and the two commands of each other language's README, with that one's first program. The machine is a
# bare Debian in a folder (debootstrap) with a C linker and this machine's Rust toolchain, an empty home and nothing downloaded; who
# is not root gets an empty home alone, and that is said.
#
# Usage: ci/newcomer.sh [STEP...]    steps: try, test, package, languages; all by default
#        KEEP=1 ci/newcomer.sh       leaves the folder, and says where
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
  # What those have who write C, C++ and Python.
  case " ${steps[*]} " in *' languages '*) include+=,g++,pkg-config,python3-venv ;; esac
  debootstrap --variant=minbase --include="$include" "$release" "$machine" >"$place/debootstrap.log" 2>&1 ||
    { tail -n 20 "$place/debootstrap.log" >&2; exit 1; }
  # Names and certificates are this network's.
  cp -L /etc/resolv.conf /etc/hosts "$machine/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$machine/etc/ssl/certs/"
  mkdir -p "$machine/opt/rust" "$machine/opt/newcomer"
else
  echo 'ci/newcomer.sh: not root, or no debootstrap: the machine is this one, with an empty home' >&2
  mkdir -p "$machine/opt/newcomer"
fi
git clone --quiet --no-local . "$machine/opt/newcomer/coreshard"
git -C "$machine/opt/newcomer/coreshard" log -1 --format='ci/newcomer.sh: %h %s'

# on_machine COMMAND: as a newcomer types it, in the clone.
on_machine() {
  printf '\n$ %s\n' "$1"
  local began=$SECONDS
  if [ -n "$is_bare" ]; then
    # What is mounted is gone with the namespace.
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

# commands_of README: the first program for a shell that it shows, which has two lines.
commands_of() {
  mapfile -t commands < <(awk '/^```sh$/ { is_in = 1; next } /^```/ { if (is_in) exit } is_in' "$1" | sed 's/ *#.*//')
  if [ "${#commands[@]}" -ne 2 ]; then
    echo "ci/newcomer.sh: $1 shows ${#commands[@]} commands first, not two" >&2
    exit 1
  fi
}

# Where the READMEs' commands install to, as install.sh says at its end.
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
      # As the README says.
      grep -q 'cargo test --workspace' README.md
      on_machine 'cargo test --workspace'
      ;;
    package)
      grep -q 'release/build.sh' README.md
      on_machine 'release/build.sh'
      if [ -n "$is_bare" ]; then
        # The package is installed where there is no Rust.
        on_machine 'dpkg --install target/handed-out/coreshard_*.deb && PATH=/usr/bin:/bin coreshard --version && PATH=/usr/bin:/bin coreshard advise'
        on_machine 'gunzip -t /usr/share/man/man1/coreshard*.1.gz && ls /usr/share/bash-completion/completions/coreshard'
        # The program alone: no library, no shell, no file of any system.
        on_machine 'mkdir /opt/nothing && cp /usr/bin/coreshard /opt/nothing/ && chroot /opt/nothing /coreshard topo --machine grace'
      fi
      ;;
    languages)
      # As the READMEs say.
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
      # The README's first program, in another folder than the sources'.
      awk '/^```python$/ { is_in = 1; next } /^```/ { if (is_in) exit } is_in' bindings/python/README.md >"$machine/opt/newcomer/first.py"
      on_machine "$VENV"' cd "$HOME"; python3 first.py'
      ;;
  esac
done
echo
echo "ci/newcomer.sh: ${steps[*]}: as the README says"
