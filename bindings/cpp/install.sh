#!/usr/bin/env bash
# Installs the C library as bindings/c/install.sh does, with the headers for C++, coreshard-cpp.pc, and what CMake's
# find_package(coreshard) reads.
#
# Usage: bindings/cpp/install.sh [--debug] [PREFIX]    what bindings/c/build.sh [--debug] has built; to /usr/local by default
#        DESTDIR=/tmp/package bindings/cpp/install.sh /usr
set -euo pipefail
readonly HERE=$(cd "$(dirname "$0")" && pwd) VERSION=0.1.0

"$HERE/../c/install.sh" "$@"
if [ "${1:-}" = --debug ]; then shift; fi
readonly PREFIX=${1:-/usr/local}
readonly TO=${DESTDIR:-}$PREFIX
install -d "$TO/include/coreshard" "$TO/lib/pkgconfig" "$TO/lib/cmake/coreshard"
install -m 644 "$HERE/include/coreshard.hpp" "$TO/include/"
install -m 644 "$HERE"/include/coreshard/*.hpp "$TO/include/coreshard/"
install -m 644 "$HERE/coreshard-config.cmake" "$TO/lib/cmake/coreshard/"
sed "s|@PREFIX@|$PREFIX|; s|@VERSION@|$VERSION|g" "$HERE/coreshard-cpp.pc.in" >"$TO/lib/pkgconfig/coreshard-cpp.pc"
sed "s|@VERSION@|$VERSION|; s|@MINOR@|${VERSION%.*}|" "$HERE/coreshard-config-version.cmake.in" \
  >"$TO/lib/cmake/coreshard/coreshard-config-version.cmake"
