#!/bin/sh
# Makes an image with this checkout's Node on Debian packages, for machines that reach no image registry: a BASE of product.sh.
# usage: node.sh IMAGE
set -eu

image=${1:?usage: node.sh IMAGE}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
cd "$here/../.."
node=$(readlink -f .tools/node)
base=boxoffice/base:$(cksum <"$here/base.sh" | cut -d ' ' -f 1)
label=dev.boxoffice.content
content=$base-$(cksum <"$node" | tr ' ' -)
[ "$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$image" 2>/dev/null || true)" != "$content" ] || exit 0
docker image inspect "$base" >/dev/null 2>&1 || sh "$here/base.sh" "$base"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$node" "$work/node"
# What node links to, of this machine: the base is of the same release.
ldd "$node" | awk '$3 ~ /stdc\+\+|libgcc/ { print $3 }' | xargs -I{} cp -L {} "$work/"
cat >"$work/Dockerfile" <<DOCKERFILE
FROM $base
COPY node /usr/local/bin/node
COPY lib* /usr/local/lib/
RUN ldconfig
DOCKERFILE
docker build --force-rm --label "$label=$content" --tag "$image" "$work" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
