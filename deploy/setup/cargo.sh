# shellcheck shell=sh
# Cargo in packages/supervisor, for setup.sh, test.sh and check.sh.

# Where rustup puts it, for shells that have not read its profile.
PATH="$PATH:$HOME/.cargo/bin"
export PATH

# Naming the target, even if it is this machine's own, keeps the static linking of .cargo/config.toml away from procedural
# macros: those are libraries that the compiler loads. Run inside the package, so that its config counts.
in_supervisor() (
  cd packages/supervisor || exit 1
  CARGO_BUILD_TARGET=$(rust_host) CARGO_TARGET_DIR=$PWD/target cargo "$@"
)

rust_host() { rustc -vV | sed -n 's/^host: //p'; }
