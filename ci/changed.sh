# Sourced by scripts that do less for unchanged files.
# shellcheck shell=bash

# changed_since COMMIT [PATH...]: the files there that differ from the merge base with COMMIT, in commits or in the working tree; both
# paths of a moved file. Fails if COMMIT does not exist, or has no merge base with HEAD.
changed_since() {
  local base
  base=$(git rev-parse --verify --quiet --end-of-options "$1^{commit}") || return
  base=$(git merge-base "$base" HEAD) || return
  shift
  git -c core.quotePath=false diff --no-renames --name-only "$base" -- "$@" || return
  git -c core.quotePath=false ls-files --others --exclude-standard -- "$@"
}
