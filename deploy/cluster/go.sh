# shellcheck shell=sh
# shellcheck disable=SC2154 # the names are set by settings.sh
# Part of build.sh: the Go that builds. The machine's own where it is new enough, else one for this build only, from Go's module proxy.

go_fetched=1.26.8

choose_go() {
  if ! missing go; then
    found=$(GOTOOLCHAIN=local go env GOVERSION | sed 's/^go//')
    [ "$(printf '%s\n' "$go_needed" "$found" | sort -V | head -n 1)" != "$go_needed" ] || return 0
    say "Go $found is too old for Kubernetes $kubernetes"
  fi
  # Of the archive, which the public checksum database lists for the module golang.org/toolchain.
  case $(uname -m) in
    x86_64) platform=linux-amd64 sum=30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7 ;;
    aarch64) platform=linux-arm64 sum=02b36b6787b3ac767668f630e2998df45a3b1f9ffee08d1bf3ef6487cd658d99 ;;
    *) fail "there is no Go to fetch for $(uname -m), and Kubernetes is built from source: install Go ≥ $go_needed" ;;
  esac
  module=golang.org/toolchain version=v0.0.1-go$go_fetched.$platform
  home=$cache/go/$module@$version
  [ -e "$home/complete" ] || fetch_go
  PATH=$home/bin:$PATH GOTOOLCHAIN=local
  unset GOROOT
  export PATH GOTOOLCHAIN
}

fetch_go() {
  missing python3 && fail "python3 is missing, which unpacks Go $go_fetched: install it, or Go ≥ $go_needed"
  say "fetching Go $go_fetched"
  rm -rf "$cache/go"
  mkdir -p "$cache/go"
  for proxy in $(echo "${GOPROXY:-https://proxy.golang.org}" | tr ',|' '  '); do
    case $proxy in http*) curl -fsSL --retry 3 --max-time 600 -o "$cache/go/zip" "${proxy%/}/$module/@v/$version.zip" && break ;; esac
  done
  [ -e "$cache/go/zip" ] || fail "no module proxy gave $module@$version (GOPROXY is ${GOPROXY:-not set}): install Go ≥ $go_needed"
  echo "$sum  $cache/go/zip" | sha256sum --check --quiet || fail "$module@$version is not the one that is pinned"
  python3 -m zipfile -e "$cache/go/zip" "$cache/go"
  rm "$cache/go/zip"
  # The archive of a module has no modes.
  chmod +x "$home"/bin/* "$home"/pkg/tool/*/*
  : >"$home/complete"
}
