# shellcheck shell=sh
# shellcheck disable=SC2154 # root is set by setup.sh
# Part of setup.sh: Node, pnpm and the dependencies of the workspace. Everything lands in the git-ignored .tools.

pnpm_version=12.21.0

# 24 is the first one that runs TypeScript as it is and knows `using`.
recent_enough() {
  version=$("$1" --version 2>/dev/null) || return 1
  version=${version#v}
  [ "${version%%.*}" -ge 24 ]
}

# Renaming over the old link is atomic: whoever starts meanwhile finds one Node or the other.
link() {
  ln -s "$1" "$2.$$" && mv -f "$2.$$" "$2"
}

choose_node() {
  bundled=node24/node_modules/node/bin/node
  chosen=$(readlink .tools/node 2>/dev/null || true)
  found=$(command -v node || true)
  # A caller may have put our own link on PATH: what we chose before stays, a link to itself would be no Node.
  case $found in "$root"/.tools/*) found=$chosen ;; esac
  if [ "$found" != "$bundled" ] && recent_enough "$found"; then
    [ "$chosen" = "$found" ] || link "$found" .tools/node
  elif [ "$chosen" != "$bundled" ] || ! recent_enough .tools/node; then
    bring_node
    link "$bundled" .tools/node
  fi
  mkdir -p .tools/bin
  [ -L .tools/bin/node ] || link ../node .tools/bin/node
  # From here on npm and every script it starts run under the chosen Node: an older one makes npm pick older majors.
  PATH="$root/.tools/bin:$PATH"
  export PATH
}

bring_node() {
  command -v npm >/dev/null 2>&1 || { say "no Node ≥ 24 and no npm to fetch one with: install Node 24"; exit 1; }
  say "no Node ≥ 24 here: fetching Node 24 into .tools"
  fetch_tool node24 node@24
  recent_enough ".tools/$bundled" || { say "the fetched Node does not run on this machine: install Node 24"; exit 1; }
}

# An empty package.json keeps npm from looking upwards for a project; scripts are allowed because `node` unpacks in one.
fetch_tool() {
  mkdir -p ".tools/$1"
  echo '{ "private": true }' >".tools/$1/package.json"
  (cd ".tools/$1" && npm install --fetch-timeout=60000 --fetch-retries=4 --no-package-lock --no-audit --no-fund --loglevel=error --ignore-scripts=false --prefix . "$2") >.tools/npm.log 2>&1 ||
    { cat .tools/npm.log >&2; say "could not fetch $2 with npm"; exit 1; }
}

install_dependencies() {
  stamp=$(cat pnpm-lock.yaml pnpm-workspace.yaml package.json apps/*/package.json packages/*/package.json deploy/docs/reference/package.json | cksum)
  stamp="$stamp $pnpm_version $("$root/.tools/node" --version)"
  [ "$(cat node_modules/.boxoffice-setup 2>/dev/null)" = "$stamp" ] && return
  if [ "$(cat .tools/pnpm/version 2>/dev/null)" != "$pnpm_version" ]; then
    say "fetching pnpm $pnpm_version into .tools"
    fetch_tool pnpm "pnpm@$pnpm_version"
    link ../pnpm/node_modules/.bin/pnpm .tools/bin/pnpm
    echo "$pnpm_version" >.tools/pnpm/version
  fi
  say "installing the dependencies"
  # CI=true: without a terminal pnpm would stop to ask before it replaces a node_modules of another layout.
  CI=true "$root/.tools/bin/pnpm" install --frozen-lockfile >.tools/pnpm.log 2>&1 || { cat .tools/pnpm.log >&2; exit 1; }
  echo "$stamp" >node_modules/.boxoffice-setup
}
