# shellcheck shell=sh
# Part of setup.sh: puts the supervisor where the agent looks for it, packages/supervisor/bin/supervisor.
# With cargo it is built from source. Without, a prebuilt one is taken that a release ships per platform, either as the optional
# package @boxoffice/supervisor-<platform>-<arch> or as packages/supervisor/prebuilt/<platform>-<arch>/supervisor; where there is none, one that was built before stays in use.

build_supervisor() {
  [ -f packages/supervisor/Cargo.toml ] || { say "packages/supervisor has no Cargo.toml"; exit 1; }
  target=packages/supervisor/bin/supervisor
  if command -v cargo >/dev/null 2>&1; then build_with_cargo; else take_prebuilt; fi
}

build_with_cargo() {
  stamp=$(cd packages/supervisor && find Cargo.toml Cargo.lock .cargo src -type f 2>/dev/null | LC_ALL=C sort |
    while IFS= read -r file; do cksum "$file"; done | cksum)
  [ -x "$target" ] && [ "$(cat .tools/supervisor.stamp 2>/dev/null)" = "$stamp" ] && return
  say "building the supervisor"
  locked=
  [ -f packages/supervisor/Cargo.lock ] && locked=--locked
  in_supervisor build --release $locked --message-format=short >.tools/cargo.log 2>&1 ||
    { cat .tools/cargo.log >&2; say "the supervisor does not build with $(rustc --version 2>/dev/null || echo "this cargo"); packages/supervisor/Cargo.toml says what it needs"; exit 1; }
  place "packages/supervisor/target/$(rust_host)/release/supervisor"
  echo "$stamp" >.tools/supervisor.stamp
}

take_prebuilt() {
  platform=$(.tools/node -p 'process.platform + "-" + process.arch')
  for candidate in "packages/supervisor/prebuilt/$platform/supervisor" "node_modules/@boxoffice/supervisor-$platform/bin/supervisor"; do
    [ -x "$candidate" ] || continue
    cmp -s "$candidate" "$target" || place "$candidate"
    return 0
  done
  # Somebody else, who has cargo, has built it for this checkout.
  if "$target" --version >/dev/null 2>&1; then return 0; fi
  say "no cargo and no prebuilt supervisor for $platform: install Rust (https://rustup.rs), then run this again"
  exit 1
}

# Renamed into place: sandboxes that run keep the old file, and no one ever starts half of one.
place() {
  mkdir -p "$(dirname "$target")"
  cp "$1" "$target.$$"
  chmod 755 "$target.$$"
  mv -f "$target.$$" "$target"
}
