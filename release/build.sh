#!/usr/bin/env bash
# Makes what is handed out of the command: one program that needs no library of its machine, its manual pages, completions and
# licences, as an archive and as a Debian package, in target/handed-out.
#
# Usage: release/build.sh [PROFILE]    release by default; dev is quicker to make, and slow
#
# Needs a Rust toolchain, Python 3, and a C linker with a static C library (Debian: libc6-dev); for the package also dpkg-deb.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROFILE=${1:-release}
readonly OUT=target/handed-out
host=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
name=coreshard-$version-$host

# With a target given, the flags are not those of build scripts and macros, which cannot be linked so.
RUSTFLAGS='-C target-feature=+crt-static' cargo build --quiet --locked --package coreshard-cli --profile "$PROFILE" --target "$host"
folder=$PROFILE
[ "$PROFILE" = dev ] && folder=debug
program=target/$host/$folder/coreshard

rm -rf "$OUT"
tree=$OUT/$name
mkdir -p "$tree/bin" "$tree/share/man/man1" "$tree/share/doc/coreshard"
install -m 755 "$program" "$tree/bin/coreshard"
strip --strip-debug "$tree/bin/coreshard"
if readelf --dynamic "$tree/bin/coreshard" | grep -q NEEDED; then
  echo "release/build.sh: the program needs libraries of its machine" >&2
  exit 1
fi
while IFS=$'\t' read -r page words; do
  # shellcheck disable=SC2086 # the words are words
  "$program" generate man $words </dev/null | gzip -9n >"$tree/share/man/man1/$page.1.gz"
done < <("$program" generate man-pages)
install -d "$tree/share/bash-completion/completions" "$tree/share/zsh/site-functions" "$tree/share/fish/vendor_completions.d"
"$program" generate completions bash >"$tree/share/bash-completion/completions/coreshard"
"$program" generate completions zsh >"$tree/share/zsh/site-functions/_coreshard"
"$program" generate completions fish >"$tree/share/fish/vendor_completions.d/coreshard.fish"
cp CHANGELOG.md README.md LICENSE-MIT LICENSE-APACHE "$tree/share/doc/coreshard/"
# A program that is linked with others' work is handed out with their notices.
release/notices.py coreshard-cli "$host" >"$tree/share/doc/coreshard/NOTICES"
tar --owner=0 --group=0 --sort=name -C "$OUT" -czf "$OUT/$name.tar.gz" "$name"
echo "$OUT/$name.tar.gz"

command -v dpkg-deb >/dev/null || exit 0
package=$OUT/package
mkdir -p "$package/DEBIAN" "$package/usr"
cp -r "$tree"/* "$package/usr/"
# Debian's place and name for licences.
cat LICENSE-MIT LICENSE-APACHE "$package/usr/share/doc/coreshard/NOTICES" >"$package/usr/share/doc/coreshard/copyright"
rm "$package/usr/share/doc/coreshard"/{LICENSE-*,NOTICES}
mkdir -p "$package/usr/share/zsh/vendor-completions"
mv "$package/usr/share/zsh/site-functions/_coreshard" "$package/usr/share/zsh/vendor-completions/"
rmdir "$package/usr/share/zsh/site-functions"
cat >"$package/DEBIAN/control" <<END
Package: coreshard
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The Coreshard developers <coreshard@localhost>
Installed-Size: $(du -sk "$package/usr" | cut -f 1)
Section: utils
Priority: optional
Description: what a many-core Linux machine looks like, and what scales on it
 Shows packages, caches, nodes and the pods of each affinity scope; measures
 work queues, block I/O and real time on them; simulates machines that are not
 here; and says what of a kernel's workqueue settings to change, or to leave.
END
dpkg-deb --root-owner-group --build "$package" "$OUT/coreshard_${version}_$(dpkg --print-architecture).deb" >/dev/null
rm -r "$package"
ls "$OUT"/*.deb
