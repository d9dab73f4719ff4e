#!/usr/bin/env bash
# Installs what build.sh has built: headers, libraries, coreshard.pc.
#
# Usage: bindings/c/install.sh [--debug] [PREFIX]    what build.sh [--debug] has built; to /usr/local by default
#        DESTDIR=/tmp/package bindings/c/install.sh /usr
set -euo pipefail
readonly HERE=$(cd "$(dirname "$0")" && pwd)
cd "$HERE/../.."

profile=release option=
if [ "${1:-}" = --debug ]; then
  profile=debug option=' --debug'
  shift
fi
readonly PREFIX=${1:-/usr/local} VERSION=0.1.0
readonly FROM=${CARGO_TARGET_DIR:-target}/c/$profile
readonly TO=${DESTDIR:-}$PREFIX
case "$PREFIX" in
  /*) ;;
  *) echo "bindings/c/install.sh: the prefix is '$PREFIX'; give a path that begins with /" >&2; exit 2 ;;
esac
if [ ! -e "$FROM/libcoreshard.so.$VERSION" ]; then
  echo "bindings/c/install.sh: there is no $FROM/libcoreshard.so.$VERSION; run bindings/c/build.sh$option first" >&2
  exit 1
fi

install -d "$TO/include/coreshard" "$TO/lib/pkgconfig"
install -m 644 "$HERE/include/coreshard.h" "$TO/include/"
install -m 644 "$HERE"/include/coreshard/*.h "$TO/include/coreshard/"
install -m 755 "$FROM/libcoreshard.so.$VERSION" "$FROM/libcoreshard_check.so" "$TO/lib/"
cp -P "$FROM/libcoreshard.so.0" "$FROM/libcoreshard.so" "$TO/lib/"
install -m 644 "$FROM/libcoreshard.a" "$TO/lib/"
sed "s|@PREFIX@|$PREFIX|; s|@VERSION@|$VERSION|" "$HERE/coreshard.pc.in" >"$TO/lib/pkgconfig/coreshard.pc"
echo "installed to $TO; if $PREFIX/lib is not searched: export LD_LIBRARY_PATH=$PREFIX/lib PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig"
