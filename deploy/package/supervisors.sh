#!/bin/sh
# `sh deploy/package/supervisors.sh`: builds the supervisor of every platform of a release into packages/supervisor/prebuilt/<platform>-<arch>,
# where packing takes it from. Needs rustup; no C compiler, as musl comes with the target and the linker with the toolchain.
# `--test` runs tests of the one for arm64 under QEMU's user mode (Debian: qemu-user-static). It knows no subreaper, seccomp or
# namespaces: the event loop (files, processes, streams, spares) and pre-forked launchers (prefork) do not run there.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
cd "$here/../.."
# shellcheck source=deploy/setup/cargo.sh
. deploy/setup/cargo.sh
command -v rustup >/dev/null || { echo "supervisors: the targets of a release come with rustup (https://rustup.rs)" >&2; exit 1; }

build() {
  ( cd packages/supervisor && rustup target list --installed | grep -qx "$1" || rustup target add "$1" >&2 )
  # Panics name the file where they happen: not by where it was on the machine that built it.
  in_supervisor build --release --locked --quiet --target "$1" \
    --config "target.$1.rustflags=['--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo','--remap-path-prefix=$PWD=/boxoffice']"
  to=packages/supervisor/prebuilt/$2
  mkdir -p "$to"
  cp "packages/supervisor/target/$1/release/supervisor" "$to/supervisor.$$"
  mv -f "$to/supervisor.$$" "$to/supervisor"
  .tools/node --disable-warning=ExperimentalWarning deploy/package/notices.ts "$1" "$to/NOTICES"
}

if [ "${1:-}" = --test ]; then
  emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || { echo "supervisors: install qemu-user-static" >&2; exit 1; }
  export BOXOFFICE_TEST_RUNNER="$emulator" CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER="$emulator"
  in_supervisor test --locked --target aarch64-unknown-linux-musl --lib --test filter --test helper --test splice --test wire
  exit
fi
build x86_64-unknown-linux-musl linux-x64
build aarch64-unknown-linux-musl linux-arm64
