# For scripts that do less for what has not changed; they source it.
# shellcheck shell=bash

# changed_since COMMIT [PATH...]: the files there that differ from where this branch left COMMIT, in commits or in the working
# tree; of a file that was moved, both places. Fails if there is no such commit, or if it has none in common with HEAD.
changed_since() {
  local base
  base=$(git rev-parse --verify --quiet --end-of-options "$1^{commit}") || return
  base=$(git merge-base "$base" HEAD) || return
  shift
  git -c core.quotePath=false diff --no-renames --name-only "$base" -- "$@" || return
  git -c core.quotePath=false ls-files --others --exclude-standard -- "$@"
}
