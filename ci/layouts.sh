#!/usr/bin/env bash
# Compares `coreshard layout` with pahole, for every type of the running kernel and of the C library's debug information.
#
# Usage: ci/layouts.sh [FILE...]    further programs or libraries with debug information
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v pahole >/dev/null; then
  echo "ci/layouts.sh: pahole is not installed (in Debian: dwarves); nothing was compared" >&2
  exit 0
fi
files=("$@")
if [ -e /sys/kernel/btf/vmlinux ]; then files+=(/sys/kernel/btf/vmlinux); fi
# In Debian: libc6-dbg.
id=$(readelf -n /lib/x86_64-linux-gnu/libc.so.6 2>/dev/null | sed -n 's/.*Build ID: //p' || true)
debug=/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
if [ -n "$id" ] && [ -e "$debug" ]; then files+=("$debug"); fi
if [ ${#files[@]} -eq 0 ]; then
  echo "ci/layouts.sh: neither the kernel's BTF nor debug information is here; nothing was compared" >&2
  exit 0
fi
cargo build --quiet -p coreshard-cli
python3 lab/compare_layouts.py target/debug/coreshard "${files[@]}"
