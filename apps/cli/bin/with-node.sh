# For the scripts beside it: `with_node NAME MAIN STATUS ARGUMENT…` becomes MAIN (below src, without its ending), run by the Node that the
# set-up chose, whichever is first on PATH. `exec` keeps the pid: signals sent to the script's pid reach the program. Without a
# Node that can run it, it ends with STATUS.
with_node() {
  name=$1 main="$cli/src/$2" status=$3
  shift 3
  root=${cli%/*/*}
  node="$root/.tools/node"
  if [ ! -x "$node" ]; then
    node=$(command -v node) || { echo "$name: no Node found; install Node 24, or run 'npm run setup' in a checkout" >&2; exit "$status"; }
    case $("$node" --version) in
      v2[4-9].* | v[3-9][0-9].*) ;;
      *) echo "$name: $node is $("$node" --version); Node 24 or later is needed" >&2; exit "$status" ;;
    esac
  fi
  [ -f "$main.ts" ] && main=$main.ts || main=$main.js # types are taken away where it is packed
  # Taking the types away and compiling is two thirds of a start; what has not changed since the last one is read instead.
  if [ -w "$root/.tools" ] && [ -z "${NODE_COMPILE_CACHE+set}" ]; then
    NODE_COMPILE_CACHE="$root/.tools/compile-cache"
    export NODE_COMPILE_CACHE
  fi
  # Once glibc has freed a large buffer it puts others of that size on its heap, where one small block above them keeps all of it: up
  # to 200 MiB of an agent that holds nothing. A threshold that is set stays. Of free memory at the end of the heap 8 MiB are kept.
  export MALLOC_MMAP_THRESHOLD_="${MALLOC_MMAP_THRESHOLD_-262144}" MALLOC_TRIM_THRESHOLD_="${MALLOC_TRIM_THRESHOLD_-8388608}"
  exec "$node" --disable-warning=ExperimentalWarning "$main" "$@"
}
