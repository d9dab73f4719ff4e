# Fetches a Debian kernel for the lessons beside this file; they source it. The host's package lists and packages stay as
# they are: lists and archives lie in FOLDER, which `fetch_kernel SUITE FOLDER` makes.
#
# Sets `image` and `modules`. Needs apt, dpkg and Debian's keyring.

fetch_kernel() {
  local suite=$1 folder uri apt package version
  folder=$(realpath -m "$2/$suite")
  mkdir -p "$folder"/{lists,archives}/partial
  if ! compgen -G "$folder/kernel/*" >/dev/null; then
    uri=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${uri:-http://deb.debian.org/debian} $suite main" \
      >"$folder/sources.list"
    apt=(-o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
      -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache::Archives=$folder/archives"
      -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o APT::Sandbox::User=root)
    apt-get "${apt[@]}" update -qq
    package=$(apt-cache "${apt[@]}" depends linux-image-cloud-amd64 | grep -oE 'linux-image-[0-9][^ ]+' | head -1)
    version=${package#linux-image-}
    # From 7 on, the image and its modules are packages of their own.
    if apt-cache "${apt[@]}" show "linux-binary-$version" >/dev/null 2>&1; then
      (cd "$folder" && apt-get "${apt[@]}" download -qq "linux-binary-$version" "linux-modules-$version")
    else
      (cd "$folder" && apt-get "${apt[@]}" download -qq "linux-image-$version-unsigned")
    fi
    for package in "$folder"/*.deb; do dpkg -x "$package" "$folder/kernel"; done
  fi
  image=$(find "$folder/kernel" -name 'vmlinuz*' -type f | head -1)
  modules=$(find "$folder/kernel" -type d -path '*/modules/*/kernel' | head -1)
  [ -n "$image" ] || { echo "kernel.sh: $suite has no kernel image in $folder/kernel" >&2; return 1; }
}
