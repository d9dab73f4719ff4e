#!/usr/bin/env bash
# Runs the tests of bindings/cpp with the shared library, and the README's program. Installs both bindings to a prefix, and
# builds and runs programs there with pkg-config and with CMake. bindings/cpp/stdexec.sh tests stdexec, whose sources are not
# in this repository; ci/c_sanitizers.sh runs the sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CPP=bindings/cpp C=bindings/c
for tool in cc c++ pkg-config; do
  command -v $tool >/dev/null || { echo "ci/cpp_binding.sh: there is no $tool; on Debian: apt-get install g++ pkg-config" >&2; exit 1; }
done
out=$($C/build.sh --debug)
readonly out
readonly WARN='-Wall -Wextra -Wpedantic -Werror'
mkdir -p "$out/tests"

# shellcheck disable=SC2086 # the options are words
for test in core coroutines; do
  c++ -std=c++20 -O1 -g $WARN -I$CPP/include -I$C/include -o "$out/tests/$test.cpp" $CPP/tests/$test.cpp -L"$out" \
    -lcoreshard -pthread -Wl,-rpath,"$PWD/$out"
  "$out/tests/$test.cpp"
done
# Each header by itself.
for header in $CPP/include/coreshard.hpp $CPP/include/coreshard/{call,error,fork_join,work,workqueue}.hpp; do
  # shellcheck disable=SC2086
  c++ -std=c++20 $WARN -I$CPP/include -I$C/include -fsyntax-only -x c++ -include "$header" /dev/null
done

# The README's first program is the example without its first line.
diff <(awk '/^```/ { if (inside) exit; inside = 1; next } inside' $CPP/README.md) <(tail -n +2 $CPP/examples/duplicates.cpp)

prefix=$(mktemp -d)
readonly prefix
trap 'rm -rf "$prefix"' EXIT
$CPP/install.sh --debug "$prefix" >/dev/null
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
# shellcheck disable=SC2046 # the options are words
cc -O2 -o "$prefix/treesize" $C/examples/treesize.c $(pkg-config --cflags --libs coreshard)
"$prefix/treesize" $C/tests | grep -q ' in [1-9][0-9]* files; 0 could not be read'
# shellcheck disable=SC2046
c++ -std=c++20 -O2 -o "$prefix/duplicates" $CPP/examples/duplicates.cpp $(pkg-config --cflags --libs coreshard-cpp)
mkdir "$prefix/tree"
cp $C/tests/more.c "$prefix/tree/one"
cp $C/tests/more.c "$prefix/tree/two"
cp $C/tests/check.c "$prefix/tree/three"
"$prefix/duplicates" "$prefix/tree" | tail -n 1 |
  grep -qx "3 files; $(stat -c %s $C/tests/more.c) bytes are there more than once"
# Also without the library.
# shellcheck disable=SC2046
cc -O2 -o "$prefix/static" $C/examples/treesize.c $(pkg-config --cflags coreshard) "$prefix/lib/libcoreshard.a" \
  $(pkg-config --static --libs-only-l coreshard | sed 's/-lcoreshard//')
env -u LD_LIBRARY_PATH "$prefix/static" $C/tests >/dev/null
# Exactly the exported symbols of the library are versioned.
objdump -T "$prefix/lib/libcoreshard.so" | awk '/ g / && !/CORESHARD_0\.1/ { print "not of the map: " $0; exit 1 }'
objdump -p "$prefix/lib/libcoreshard.so" | grep -q 'SONAME *libcoreshard.so.0$'

if ! command -v cmake >/dev/null; then
  echo "ci/cpp_binding.sh: skipped: find_package, for want of cmake (Debian: cmake)"
  exit 0
fi
cp $CPP/examples/duplicates.cpp $C/examples/treesize.c "$prefix/tree/"
cat >"$prefix/tree/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(programs C CXX)
find_package(coreshard 0.1 REQUIRED)
add_executable(duplicates duplicates.cpp)
target_compile_features(duplicates PRIVATE cxx_std_20)
target_link_libraries(duplicates PRIVATE coreshard::coreshard)
add_executable(treesize treesize.c)
target_link_libraries(treesize PRIVATE coreshard::static)
CMAKE
cmake -S "$prefix/tree" -B "$prefix/built" -DCMAKE_PREFIX_PATH="$prefix" >"$prefix/log" || { cat "$prefix/log"; exit 1; }
cmake --build "$prefix/built" >"$prefix/log" || { cat "$prefix/log"; exit 1; }
"$prefix/built/treesize" $C/tests >/dev/null
"$prefix/built/duplicates" $C/tests | grep -q '; 0 bytes are there more than once'
echo "a prefix serves pkg-config and CMake"
