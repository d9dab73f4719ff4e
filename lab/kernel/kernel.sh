# What the lessons beside this file share; they source it and call `lesson` with their arguments [SUITE] [CPUS] [FOLDER].
#
# Kernels are Debian's. The host's package lists and packages stay as they are: lists, archives, recordings and reports lie in
# FOLDER/SUITE.
# With DWARF=1, reports have source lines and the types of globals from the kernel's package of debug information (350 MB).
# Needs apt, dpkg, Debian's keyring and a C compiler.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
coreshard=${CORESHARD:-coreshard}

# Sets `suite`, `cpus`, `folder`, `machine`, `image`, `modules` and `version`.
lesson() {
  suite=${1:-sid} cpus=${2:-32} folder=$(realpath -m "${3:-kernel-lab}")/$suite
  machine="pack:2 numa:1 l3:1 core:$((cpus / 2)) pu:1"
  fetch_kernel
}

of_suite() {
  local uri tool=$1
  shift
  mkdir -p "$folder"/{lists,archives}/partial
  if [ ! -f "$folder/sources.list" ]; then
    uri=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${uri:-http://deb.debian.org/debian} $suite main" \
      >"$folder/sources.list"
    of_suite apt-get update -qq
  fi
  "$tool" -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache::Archives=$folder/archives" \
    -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o APT::Sandbox::User=root "$@"
}

# Downloads packages and unpacks them into a folder, once.
unpack() {
  local into=$1 package
  shift
  [ ! -d "$into" ] || return 0
  mkdir -p "$into.new/packages"
  (cd "$into.new/packages" && of_suite apt-get download -qq "$@")
  for package in "$into.new/packages"/*.deb; do dpkg -x "$package" "$into.new"; done
  mv "$into.new" "$into"
}

fetch_kernel() {
  if [ ! -d "$folder/kernel" ]; then
    version=$(of_suite apt-cache depends linux-image-cloud-amd64 | grep -oE 'linux-image-[0-9][^ ]+' | head -1)
    version=${version#linux-image-}
    # From 7 on, the image and its modules are packages of their own.
    if of_suite apt-cache show "linux-binary-$version" >/dev/null 2>&1; then
      unpack "$folder/kernel" "linux-binary-$version" "linux-modules-$version"
    else
      unpack "$folder/kernel" "linux-image-$version-unsigned"
    fi
  fi
  image=$(find "$folder/kernel/" -name 'vmlinuz*' -type f | head -1)
  modules=$(find "$folder/kernel/" -type d -path '*/modules/*/kernel' | head -1)
  version=$(basename "$(dirname "$modules")")
  debug=()
  if [ -n "${DWARF:-}" ]; then
    unpack "$folder/debug" "linux-image-$version-dbg"
    debug=(--debug-file "$(find "$folder/debug/" -name vmlinux -type f | head -1)")
  fi
  [ -n "$image" ] || { echo "kernel.sh: $suite has no kernel image in $folder/kernel" >&2; return 1; }
}

# Builds a load, NAME.c beside this file, to run in the guest.
load() { cc -O1 -static -pthread -o "$folder/$1" "$here/$1.c"; }

# Records under a name: record NAME MACHINE ARGUMENTS...
record() {
  local name=$1 guest=$2
  shift 2
  $coreshard kernel record --force -o "$folder/$name.trace" --image "$image" --machine "$guest" --modules "$modules" \
    --marked "${debug[@]}" "$@"
}

# Replays what was recorded under a name: replay NAME MACHINE [VARIANT OPTIONS...]. The report and its JSON lie beside the
# recording, NAME.json or NAME-VARIANT.json.
replay() {
  local name=$1 on=$2 report=$folder/$1${3:+-$3}
  shift $(($# < 3 ? 2 : 3))
  $coreshard replay "$folder/$name.trace" --machine "$on" --lines 100 --json "$report.json" --force "$@" >"$report.txt"
}

# Builds the module NAME.c beside this file. The packages of headers are enough: their programs, which other releases of
# Debian cannot run, are not needed for a module without exports.
build_module() {
  local name=$1 own common flags
  unpack "$folder/headers" "linux-headers-$version" "linux-headers-${version%-cloud-amd64}-common"
  own=$folder/headers/usr/src/linux-headers-$version
  common=$folder/headers/usr/src/linux-headers-${version%-cloud-amd64}-common
  flags=(-nostdinc -D__KERNEL__ -DMODULE "-DKBUILD_MODNAME=\"$name\"" "-DKBUILD_BASENAME=\"$name\"" "-DKBUILD_MODFILE=\"$name\""
    "-D__KBUILD_MODNAME=$name" -w -O2 -std=gnu11 -fms-extensions -fshort-wchar -funsigned-char -fno-common -fno-PIE
    -fno-strict-aliasing -fno-strict-overflow -fno-delete-null-pointer-checks -fno-stack-protector -fno-jump-tables
    -fno-asynchronous-unwind-tables -fcf-protection=none -m64 -mno-80387 -mno-sse -mno-mmx -mno-red-zone -mcmodel=kernel
    -mpreferred-stack-boundary=3)
  for place in arch/x86/include include arch/x86/include/uapi include/uapi; do
    flags+=("-I$common/$place" "-I$own/$place" "-I$own/${place/x86\/include/x86/include/generated}"
      "-I$own/${place/include\/uapi/include/generated/uapi}")
  done
  for place in compiler-version kconfig compiler_types; do flags+=(-include "$common/include/linux/$place.h"); done
  cc "${flags[@]}" -c -o "$folder/$name.o" "$here/$name.c"
  {
    echo '#include <linux/module.h>'
    echo '#define INCLUDE_VERMAGIC'
    echo '#include <linux/vermagic.h>'
    echo 'MODULE_INFO(vermagic, VERMAGIC_STRING); MODULE_INFO(name, KBUILD_MODNAME); MODULE_INFO(depends, "");'
    echo '__visible struct module __this_module __section(".gnu.linkonce.this_module") ='
    echo '  {.name = KBUILD_MODNAME, .init = init_module, .arch = MODULE_ARCH_INIT};'
    echo '#ifdef CONFIG_MODVERSIONS'
    echo 'static const struct modversion_info versions[] __used __section("__versions") = {'
    { echo module_layout; nm -u "$folder/$name.o" | awk '{print $2}'; } |
      awk 'NR == FNR {wanted[$1]; next} $2 in wanted {printf "{%s, \"%s\"},\n", $1, $2}' - "$own/Module.symvers"
    echo '};'
    echo '#endif'
  } >"$folder/$name.mod.c"
  cc "${flags[@]}" -c -o "$folder/$name.mod.o" "$folder/$name.mod.c"
  ld -r -o "$folder/$name.ko" "$folder/$name.o" "$folder/$name.mod.o"
}
