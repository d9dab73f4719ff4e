# For scripts that do less for what has not changed; they source it.
# shellcheck shell=bash

# changed_since COMMIT [PATH...]: the files there that differ from where this branch left COMMIT, in commits or in the working
# tree. Fails if HEAD and COMMIT have no commit in common.
changed_since() {
  local base
  base=$(git merge-base "$1" HEAD) || return
  shift
  git diff --name-only "$base" -- "$@"
  git ls-files --others --exclude-standard -- "$@"
}
