#!/bin/sh
# Builds boxoffice/broker:latest and boxoffice/agent:latest from this checkout, which must be set up (npm run setup).
# environment: BASE (an image with Node ≥ 24; default node:24-bookworm-slim)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
cd "$here/../.."
say() { echo "images: $*" >&2; }
[ -x packages/supervisor/bin/supervisor ] && [ -x .tools/node ] || { say "set up first: npm run setup"; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The package that `npm install` takes without a registry: what runs and all that it needs, 61 MB of the checkout's 600.
# Its file is the same for the same sources, so the engine builds only what changed.
.tools/node --disable-warning=ExperimentalWarning deploy/package/pack.ts "$work" >/dev/null
cp deploy/images/product/*.sh "$work"
for target in broker agent; do
  docker build --force-rm --build-arg BASE="${BASE:-node:24-bookworm-slim}" --target "$target" --tag "boxoffice/$target:latest" \
    -f deploy/images/product/Dockerfile "$work" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; say "the build failed"; exit 1; }
done
