#!/bin/sh
# Builds boxoffice/sandbox:latest in the Docker engine. Does nothing when the engine has the image of this Dockerfile.
# environment: BASE (default: debian:bookworm-slim, else one made here from packages), EXTRA_PACKAGES, IMAGE
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
image=${IMAGE:-boxoffice/sandbox:latest}
extra=${EXTRA_PACKAGES:-}
slim=debian:bookworm-slim
own=boxoffice/base:$(cksum <"$here/base.sh" | cut -d ' ' -f 1)
say() { echo "images: $*" >&2; }
have() { docker image inspect "$1" >/dev/null 2>&1; }

docker info >/dev/null 2>&1 || { say "no Docker engine answers"; exit 1; }

content=$(printf '%s\n' "$(cksum <"$here/sandbox/Dockerfile")" "$(cksum <"$here/base.sh")" "$extra" "${BASE:-}" | cksum | tr ' ' -)
label=dev.boxoffice.content
[ "$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$image" 2>/dev/null || true)" != "$content" ] || exit 0

if [ -n "${BASE:-}" ]; then
  base=$BASE
elif have "$slim" || docker pull --quiet "$slim" >/dev/null 2>&1; then
  base=$slim
else
  base=$own
  have "$own" || sh "$here/base.sh" "$own"
fi

say "building $image on $base (once, about a minute)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The host's network and proxy: where apt works on this machine, it works in the build.
proxy=
if command -v apt-config >/dev/null 2>&1; then
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
fi
[ -z "$proxy" ] || export http_proxy="$proxy"
docker build --force-rm --network host --build-arg BASE="$base" --build-arg EXTRA_PACKAGES="$extra" --build-arg http_proxy --build-arg https_proxy \
  --label "$label=$content" --tag "$image" "$here/sandbox" >"$log" 2>&1 || { tail -n 30 "$log" >&2; say "the build failed"; exit 1; }
