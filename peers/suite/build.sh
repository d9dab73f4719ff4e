#!/bin/sh
# Builds the public suite's programs: those of its leaders from their own sources, ours and rayon's from ../src/bin/suite.
#
#   peers/suite/build.sh [FOLDER]      FOLDER: target/suite beside this one's parent, by default
#
# Sources are cloned from $SUITE_SOURCES (https://github.com by default; a folder with OWNER/NAME in it will do, too), at the
# releases below. Needs git, clang 18 or newer (CXX names another), libhwloc-dev, and libtcmalloc-minimal4, against which the suite links:
# Debian: clang-19 libhwloc-dev libtbb-dev libtcmalloc-minimal4. What cannot be had is left out, and compare.py says so.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../target/suite}
sources=${SUITE_SOURCES:-https://github.com}
mkdir -p "$out/sources" "$out/bin"
out=$(cd "$out" && pwd)

RUSTFLAGS="-C target-cpu=native" cargo build --release --manifest-path "$here/../Cargo.toml" --bin suite --target-dir "$out"
cp "$out/release/suite" "$out/bin/"

CXX=${CXX:-$(command -v clang++-19 || command -v clang++-18 || command -v clang++ || true)}
[ -n "$CXX" ] || { echo "build.sh: no clang++ here: ours and rayon's alone are built" >&2; exit 0; }

# OWNER/NAME COMMIT FOLDER
get() {
    at=$out/sources/$3
    if [ ! -d "$at" ]; then
        git clone --quiet "$sources/$1" "$at" || { echo "build.sh: $1 cannot be had from $sources" >&2; return 1; }
    fi
    git -C "$at" checkout --quiet "$2"
}

tcmalloc=$(ls /usr/lib/*/libtcmalloc_minimal.so* 2>/dev/null | head -n 1 || true)
[ -n "$tcmalloc" ] || echo "build.sh: without tcmalloc, which the suite's own figures have" >&2
flags="-std=c++23 -w -O3 -march=native -DNDEBUG -falign-loops=64"
libraries=

# NAME FLAGS...
build() {
    name=$1
    shift
    for program in fib skynet nqueens matmul; do
        # shellcheck disable=SC2086
        "$CXX" $flags "$@" -I "$out/sources/suite/cpp/2common" "$out/sources/suite/cpp/$name/$program.cpp" \
            -o "$out/bin/$name-$program" $tcmalloc -lhwloc -lpthread -latomic $libraries ||
            echo "build.sh: $name's $program does not compile here" >&2
    done
}

get tzcnt/runtime-benchmarks 5c499a1 suite || exit 0
! get ConorWilliams/libfork v3.8.0 libfork || build libfork -I "$out/sources/libfork/include" -DLF_USE_HWLOC
! get tzcnt/TooManyCooks v1.6.1 TooManyCooks ||
    build TooManyCooks -I "$out/sources/TooManyCooks/include" -DTMC_PRIORITY_COUNT=1 -DTMC_TRIVIAL_TASK -DTMC_USE_HWLOC
! get Lallapallooza/citor v0.6.0 citor || build citor -I "$out/sources/citor/include" -DCITOR_WORKER_STACK_KIB=65536
# The system's own.
libraries=-ltbb
build tbb
