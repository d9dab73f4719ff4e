# For the steps that do less for what has not changed; they source it.
# shellcheck shell=bash

# changed_since COMMIT PATH...: whether a file there differs from where this branch left COMMIT, commits and working tree
# together. Succeeds as well if that cannot be told.
changed_since() {
  local base
  base=$(git merge-base "$1" HEAD 2>/dev/null) || return 0
  shift
  [ -n "$(git diff --name-only "$base" -- "$@"; git ls-files --others --exclude-standard -- "$@")" ]
}
