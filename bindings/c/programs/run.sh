#!/usr/bin/env bash
# Runs two existing programs on Coreshard: mkfs.erofs of erofs-utils, which compresses with its own work queue, and
# xfs_repair of xfsprogs, which checks allocation groups with libfrog's. Each is built twice: unchanged, and with the
# file of its work queue replaced. Both builds must produce the same output from the same input, and are timed in
# alternating order.
#
# The sources are Debian's, from apt-get source, which keeps its lists in FOLDER and does not change the machine. No
# part of them is kept here. Needs: liblz4-dev uuid-dev libinih-dev libblkid-dev liburcu-dev libattr1-dev gettext
# autoconf automake libtool pkg-config dpkg-dev.
#
# Usage: bindings/c/programs/run.sh [FOLDER]    a folder for sources, builds and images; target/c/programs by default
#        RUNS=9 bindings/c/programs/run.sh      timed runs of each; 5 by default, 0 for the comparison only
#        ONLY=xfs_repair bindings/c/programs/run.sh    or mkfs.erofs
#        DEBIAN=https://mirror.example/debian bindings/c/programs/run.sh    another mirror
set -euo pipefail
readonly HERE=$(cd "$(dirname "$0")" && pwd)
cd "$HERE/../../.."
readonly ROOT=$PWD RUNS=${RUNS:-5} DEBIAN=${DEBIAN:-http://deb.debian.org/debian}
readonly ONLY=${ONLY:-mkfs.erofs xfs_repair}
mkdir -p "${1:-target/c/programs}"
readonly FOLDER=$(cd "${1:-target/c/programs}" && pwd)
readonly LIB=$ROOT/${CARGO_TARGET_DIR:-target}/c/release
[ -e "$LIB/libcoreshard.so" ] || bindings/c/build.sh
readonly FLAGS="-O2 -I$ROOT/bindings/c/include"

# apt NAME...: apt-get with separate lists of sources only.
apt() {
  apt-get -o Dir::Etc::SourceList="$FOLDER/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$FOLDER/apt/lists" \
    -o Dir::Cache="$FOLDER/apt/cache" --quiet "$@"
}

# source_of PACKAGE SUITE: its tree, as Debian has it, without its name's version.
source_of() {
  [ -d "$FOLDER/$1" ] && return
  if [ ! -e "$FOLDER/apt/is_there" ]; then
    mkdir -p "$FOLDER/apt/lists/partial" "$FOLDER/apt/cache/archives/partial"
    printf 'deb-src %s %s main\n' "$DEBIAN" bookworm "$DEBIAN" sid >"$FOLDER/apt/sources.list"
    apt update >"$FOLDER/apt/log" 2>&1 || { cat "$FOLDER/apt/log" >&2; exit 1; }
    touch "$FOLDER/apt/is_there"
  fi
  (cd "$FOLDER" && apt source "$1/$2" >"$FOLDER/apt/log" 2>&1 && mv "$1"-[0-9]*/ "$1") || { cat "$FOLDER/apt/log" >&2; exit 1; }
}

# build NAME PACKAGE COMMAND...: a copy of the tree, built by a function.
build() {
  local tree=$FOLDER/$1 package=$2
  shift 2
  [ -e "$tree/built" ] && return
  rm -rf "$tree"
  cp -a "$FOLDER/$package" "$tree"
  if ! (cd "$tree" && "$@") >"$tree.log" 2>&1; then
    echo "run.sh: $tree cannot be built; see $tree.log" >&2
    exit 1
  fi
  touch "$tree/built"
}

erofs_utils() {
  ./autogen.sh
  ./configure --enable-lz4 --enable-multithreading --disable-fuse --without-uuid CFLAGS="$FLAGS" "$@"
  make -j"$(nproc)"
}
erofs_utils_on_coreshard() {
  cp "$HERE/erofs-utils/workqueue.h" include/erofs/workqueue.h
  cp "$HERE/erofs-utils/workqueue.c" lib/workqueue.c
  erofs_utils LIBS="-L$LIB -Wl,-rpath,$LIB -lcoreshard"
}
xfsprogs() {
  # Omit everything except the program with the work queue.
  ./configure --disable-shared --enable-static=yes --enable-scrub=no --enable-libicu=no --enable-gettext=no \
    CFLAGS="$FLAGS"
  make -j"$(nproc)" headers
  make -j"$(nproc)" mkfs repair db
}
xfsprogs_on_coreshard() {
  cp "$HERE/xfsprogs/workqueue.c" libfrog/workqueue.c
  # Its makefiles have one place for further libraries, in front of the objects.
  export LDFLAGS="-Wl,--no-as-needed -L$LIB -Wl,-rpath,$LIB -lcoreshard"
  xfsprogs
}

# timed NAME PREPARE COMMAND OTHER: both in turns, each after what is not timed; the median of their ratios.
timed() {
  local name=$1 run which
  [ "$RUNS" -gt 0 ] || return 0
  : >"$FOLDER/$name.times"
  for run in $(seq "$RUNS"); do
    for which in before after; do
      local command=$3
      [ "$which" = before ] || command=$4
      eval "$2"
      local TIMEFORMAT='%R %U %S'
      { time eval "$command" >/dev/null 2>&1; } 2>&1 | sed "s/^/$which $run /" >>"$FOLDER/$name.times"
    done
  done
  awk -v name="$name" '
    { real[$1, $2] = $3; cpu[$1] += $4 + $5; if ($2 > runs) runs = $2 }
    END {
      for (i = 1; i <= runs; i++) ratio[i] = real["after", i] / real["before", i]
      for (i = 1; i <= runs; i++) for (j = i + 1; j <= runs; j++) if (ratio[j] < ratio[i]) { t = ratio[i]; ratio[i] = ratio[j]; ratio[j] = t }
      printf "%s: %d runs, time of ours / theirs %.2f (%.2f to %.2f), CPU time %.2f\n", name, runs, ratio[int((runs + 1) / 2)], ratio[1], ratio[runs], cpu["after"] / cpu["before"]
    }' "$FOLDER/$name.times"
}

compare_mkfs_erofs() {
  source_of erofs-utils sid
  build erofs-before erofs-utils erofs_utils
  build erofs-after erofs-utils erofs_utils_on_coreshard
  local which
  readonly INPUT=${INPUT:-/usr/include}
  for which in before after; do
    rm -rf "$FOLDER/$which.erofs" "$FOLDER/$which.out"
    "$FOLDER/erofs-$which/mkfs/mkfs.erofs" -zlz4hc,12 -C65536 --workers="$(nproc)" -T0 -U 00000000-0000-0000-0000-000000000001 \
      "$FOLDER/$which.erofs" "$INPUT" >/dev/null
    # Its own check reads, decompresses and compares the contents of the image.
    "$FOLDER/erofs-$which/fsck/fsck.erofs" --extract="$FOLDER/$which.out" "$FOLDER/$which.erofs" >/dev/null
    diff -r --no-dereference "$INPUT" "$FOLDER/$which.out"
    rm -rf "$FOLDER/$which.out"
  done
  cmp "$FOLDER/before.erofs" "$FOLDER/after.erofs"
  echo "mkfs.erofs: both images are the same, $(stat -c %s "$FOLDER/after.erofs") bytes, and hold $INPUT"
  erofs() { echo "'$FOLDER/erofs-$1/mkfs/mkfs.erofs' -zlz4hc,12 -C65536 --workers=$(nproc) -T0 '$FOLDER/timed.erofs' '$INPUT'"; }
  timed mkfs.erofs : "$(erofs before)" "$(erofs after)"
}

compare_xfs_repair() {
  source_of xfsprogs bookworm
  build xfs-before xfsprogs xfsprogs
  build xfs-after xfsprogs xfsprogs_on_coreshard
  local which status group
  readonly IMAGE=$FOLDER/broken.xfs
  if [ ! -e "$IMAGE" ]; then
    # A file system with many files, made without a mount, by a description of them.
    {
      printf '/dev/null\n0 0\nd--755 0 0\n'
      for directory in $(seq 60); do
        printf 'd%d d--755 0 0\n' "$directory"
        for file in $(seq 250); do printf 'f%d ---644 0 0 %s\n' "$file" "$HERE/run.sh"; done
        printf '$\n'
      done
      printf '$\n'
    } >"$FOLDER/description"
    rm -f "$IMAGE"
    truncate -s 2g "$IMAGE"
    "$FOLDER/xfs-before/mkfs/mkfs.xfs" -q -f -d agcount=16 -p "$FOLDER/description" "$IMAGE"
    # Directories, the inode and free-space trees and a superblock are hurt, always the same ones.
    for group in 1 3 5 7; do
      "$FOLDER/xfs-before/db/xfs_db" -x -c "agf $group" -c 'write -c freeblks 7' -c "agi $group" -c 'write -c count 3' "$IMAGE" \
        >/dev/null 2>&1 || true
    done
    "$FOLDER/xfs-before/db/xfs_db" -x -c 'sb 2' -c 'write -c icount 1' "$IMAGE" >/dev/null 2>&1 || true
  fi
  for which in before after; do
    cp --sparse=always "$IMAGE" "$FOLDER/$which.xfs"
    status=0
    "$FOLDER/xfs-$which/repair/xfs_repair" -o ag_stride=4 -o force_geometry "$FOLDER/$which.xfs" >"$FOLDER/$which.said" 2>&1 || status=$?
    echo "status $status" >>"$FOLDER/$which.said"
    "$FOLDER/xfs-$which/repair/xfs_repair" -n "$FOLDER/$which.xfs" >/dev/null 2>&1 ||
      { echo "run.sh: xfs_repair ($which) leaves a file system that is not clean" >&2; exit 1; }
  done
  # Groups are reported when they are done, so the order of lines varies, and so do the time and addresses of code.
  said() { sed -E 's/[0-9]{2}:[0-9]{2}:[0-9]{2}//; s/0x[0-9a-f]{12}//' "$FOLDER/$1.said" | sort; }
  if ! diff <(said before) <(said after); then
    echo "run.sh: the two xfs_repair say different things" >&2
    exit 1
  fi
  if ! cmp "$FOLDER/before.xfs" "$FOLDER/after.xfs"; then
    echo "run.sh: the two xfs_repair leave different file systems" >&2
    exit 1
  fi
  echo "xfs_repair: both found the same ($(wc -l <"$FOLDER/after.said") lines), and leave the same bytes, which are clean"
  repair() { echo "'$FOLDER/xfs-$1/repair/xfs_repair' -o ag_stride=4 -o force_geometry '$FOLDER/timed.xfs'"; }
  timed xfs_repair "cp --sparse=always '$IMAGE' '$FOLDER/timed.xfs'" "$(repair before)" "$(repair after)"
}

for program in $ONLY; do
  case $program in
    mkfs.erofs | xfs_repair) "compare_${program/./_}" ;;
    *) echo "run.sh: $program is none of mkfs.erofs, xfs_repair" >&2; exit 2 ;;
  esac
done
