#!/bin/sh
# Builds boxoffice/broker:latest and boxoffice/agent:latest from this checkout, which must be set up (npm run setup).
# environment: BASE (an image with Node ≥ 24; default node:24-bookworm-slim)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
cd "$here/../.."
say() { echo "images: $*" >&2; }
[ -x packages/supervisor/bin/supervisor ] && [ -d node_modules ] || { say "set up first: npm run setup"; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What runs, and what it needs; tools for those who build it stay here. Tools that run meanwhile make files in node_modules itself (their
# caches), and `tar` fails for a directory that changes while it reads it: so the names are given, and caches are not read.
tar -c --exclude='node_modules/.pnpm/@biomejs*' --exclude='node_modules/.pnpm/*typescript*' --exclude='node_modules/.pnpm/vega-*' \
  --exclude='node_modules/.pnpm/knip*' --exclude='node_modules/.pnpm/*rolldown*' --exclude='node_modules/.pnpm/*lightningcss*' \
  --exclude='node_modules/.pnpm/vite*' --exclude='node_modules/.pnpm/*oxc*' --exclude='packages/supervisor/target' --exclude='.turbo' \
  --exclude='.vite*' --exclude='.cache' --exclude='*/test' --exclude='*/bench' --exclude='deploy/setup' \
  package.json node_modules/.pnpm node_modules/* apps packages deploy >"$work/context.tar"
for target in broker agent; do
  docker build --force-rm --build-arg BASE="${BASE:-node:24-bookworm-slim}" --target "$target" --tag "boxoffice/$target:latest" \
    -f deploy/images/product/Dockerfile - <"$work/context.tar" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; say "the build failed"; exit 1; }
done
