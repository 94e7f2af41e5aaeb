# shellcheck shell=sh
# A Docker engine for the tests: the one that answers, else one of our own for as long as the tests run.
# Sourced by test.sh and .ci/run, which call stop_engine when they end.

engine_pid=

ensure_engine() {
  timeout 20 docker info >/dev/null 2>&1 && return 0
  if [ "$(id -u)" -ne 0 ] || ! command -v dockerd >/dev/null 2>&1; then
    echo "test: no Docker engine answers, and this user cannot start one: start it, then run this again" >&2
    return 1
  fi
  engine_log=$PWD/.tools/dockerd.log
  drop_stale_pid /var/run/docker.pid
  drop_stale_pid /var/run/docker/containerd/containerd.pid
  # In a session of its own: Ctrl-C at the tests must not end the engine before the containers are removed.
  setsid dockerd >"$engine_log" 2>&1 </dev/null &
  engine_pid=$!
  waited=0
  until timeout 20 docker info >/dev/null 2>&1; do
    if [ "$waited" -ge 90 ] || ! kill -0 "$engine_pid" 2>/dev/null; then
      tail -n 20 "$engine_log" >&2
      echo "test: the Docker engine did not start; its log is above" >&2
      stop_engine
      return 1
    fi
    sleep 1
    waited=$((waited + 1))
  done
}

stop_engine() {
  [ -n "$engine_pid" ] || return 0
  kill "$engine_pid" 2>/dev/null || true
  # An engine that cannot end its containers must not keep the run from ending.
  waited=0
  while [ "$waited" -lt 60 ] && grep -qs '^State:[[:space:]]*[^Z]' "/proc/$engine_pid/status"; do
    sleep 1
    waited=$((waited + 1))
  done
  kill -KILL "$engine_pid" 2>/dev/null || true
  wait "$engine_pid" 2>/dev/null || true
  engine_pid=
}

# An engine that was killed, or a machine restored from an image, leaves a pid file behind; dockerd believes it as soon as any
# process has that number, also one that has ended and that nobody has waited for.
drop_stale_pid() {
  [ -f "$1" ] || return 0
  status=/proc/$(cat "$1")/status
  if grep -qs '^State:[[:space:]]*Z' "$status"; then
    rm -f "$1"
    return 0
  fi
  case $(sed -n 's/^Name:[[:space:]]*//p' "$status" 2>/dev/null) in dockerd | containerd) ;; *) rm -f "$1" ;; esac
}
