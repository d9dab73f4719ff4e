#!/usr/bin/env bash
# Builds Coreshard's C library into target/c of the repository: libcoreshard.so (with its soname and the symbol
# versions of coreshard.map), libcoreshard.a, libcoreshard_check.so and coreshard.pc.
#
# Usage: bindings/c/build.sh [--debug]    optimized by default
#        CC=clang bindings/c/build.sh     links with another compiler; gcc's `cc` by default
set -euo pipefail
readonly HERE=$(cd "$(dirname "$0")" && pwd)
cd "$HERE/../.."

profile=release options=(--release)
if [ "${1:-}" = --debug ]; then profile=debug options=(); elif [ $# -gt 0 ]; then
  echo "bindings/c/build.sh: $1 is not known; the one option is --debug" >&2
  exit 2
fi
readonly CC=${CC:-cc} VERSION=0.1.0 SOVERSION=0
readonly TARGET=${CARGO_TARGET_DIR:-target}
readonly OUT=$TARGET/c/$profile
# System libraries that the standard library needs.
readonly SYSTEM='-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc'

cargo build --quiet --locked -p coreshard-c "${options[@]}"
mkdir -p "$OUT"
cp "$TARGET/$profile/libcoreshard_c.a" "$OUT/libcoreshard.a"
# Each queueing accesses one thread-local variable. A linker uses the short access (initial-exec) everywhere if one
# place does. This function, which is never called, is such a place: it saves 12 instructions, and costs 400 bytes that
# the C library reserves for each thread if the library is loaded later. Stable rustc has no other way to request it.
# The access on aarch64 is short in any case.
short=()
if [ "$(uname -m)" = x86_64 ]; then
  variable=$(nm "$OUT/libcoreshard.a" 2>/dev/null | awk '$2 == "B" && /coreshard_platform4host7readers6READER.*_VAL/ { found = $3 } END { print found }')
  if [ -z "$variable" ]; then
    echo "bindings/c/build.sh: READER of coreshard-platform's host/readers.rs is not found; see the lines above this one" >&2
    exit 1
  fi
  printf '.section .text.coreshard, "axR", @progbits\n movq "%s"@gottpoff(%%rip), %%rax\n.section .note.GNU-stack, "", @progbits\n' \
    "$variable" >"$OUT/short.s"
  "$CC" -c -o "$OUT/short.o" "$OUT/short.s"
  short=("$OUT/short.o")
fi
# shellcheck disable=SC2086 # the libraries are words
"$CC" -shared -o "$OUT/libcoreshard.so.$VERSION" -Wl,-soname,libcoreshard.so.$SOVERSION \
  -Wl,--version-script="$HERE/coreshard.map" -Wl,--gc-sections -Wl,-z,defs -Wl,-z,relro,-z,now \
  "${short[@]}" -Wl,--whole-archive "$OUT/libcoreshard.a" -Wl,--no-whole-archive $SYSTEM
ln -sf libcoreshard.so.$VERSION "$OUT/libcoreshard.so.$SOVERSION"
ln -sf libcoreshard.so.$SOVERSION "$OUT/libcoreshard.so"
"$CC" -shared -fPIC -O2 -Wall -Wextra -I"$HERE/include" -o "$OUT/libcoreshard_check.so" "$HERE/check_preload.c" \
  -Wl,-soname,libcoreshard_check.so -ldl
echo "$OUT"
