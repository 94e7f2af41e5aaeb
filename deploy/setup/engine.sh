# shellcheck shell=sh
# A Docker engine for the tests: the one that answers, else one of our own for as long as the tests run.
# Sourced by test.sh and .ci/run, which call stop_engine when they end.

# Of the engine that was started here, and of what watches it; empty where neither was.
engine_pid_file=
engine_watch=
# There once an engine that hung was started again: what failed until then says nothing.
engine_restarted=$PWD/.tools/engine-restarted

ensure_engine() {
  timeout 20 docker info >/dev/null 2>&1 && return 0
  if [ "$(id -u)" -ne 0 ] || ! command -v dockerd >/dev/null 2>&1; then
    echo "test: no Docker engine answers, and this user cannot start one: start it, then run this again" >&2
    return 1
  fi
  rm -f "$engine_restarted"
  engine_pid_file=$PWD/.tools/dockerd.pid
  start_engine || return 1
  watch_engine &
  engine_watch=$!
}

start_engine() {
  engine_log=$PWD/.tools/dockerd.log
  drop_stale_pid /var/run/docker.pid
  drop_stale_pid /var/run/docker/containerd/containerd.pid
  # In a session of its own: Ctrl-C at the tests must not end the engine before the containers are removed.
  setsid dockerd >>"$engine_log" 2>&1 </dev/null &
  echo "$!" >"$engine_pid_file"
  waited=0
  until timeout 20 docker info >/dev/null 2>&1; do
    if [ "$waited" -ge 90 ] || ! is_running "$(cat "$engine_pid_file")"; then
      tail -n 20 "$engine_log" >&2
      echo "test: the Docker engine did not start; its log is above" >&2
      stop_engine
      return 1
    fi
    sleep 1
    waited=$((waited + 1))
  done
}

# An engine that does not answer for one and a half minutes is ended, and another one started: Docker 20.10 hung once in a run of half
# an hour, and what waits for it fails one after the other. Where it hung, its log says.
watch_engine() {
  trap 'exit 0' TERM
  silent=0
  # Not beside the shell's output, which its caller may wait for the end of.
  while sleep 10 >/dev/null 2>&1 & wait "$!"; do
    if timeout 20 docker info >/dev/null 2>&1; then
      silent=0
      continue
    fi
    silent=$((silent + 1))
    [ "$silent" -ge 3 ] || continue
    pid=$(cat "$engine_pid_file")
    echo "test: the Docker engine does not answer; it is started again. $(cat /proc/loadavg) $(grep MemAvailable /proc/meminfo)" >&2
    # It writes what each of its goroutines waits for.
    kill -USR1 "$pid" 2>/dev/null || true
    sleep 2
    for stacks in /var/run/docker/goroutine-stacks-*.log; do
      if [ -f "$stacks" ]; then
        grep -cE '^goroutine ' "$stacks" >&2
        grep -E '^goroutine .*(Mutex|semacquire|minutes)' -A 8 "$stacks" | head -n 200 >&2
        rm -f "$stacks"
      fi
    done
    date >>"$engine_restarted"
    kill -KILL "$pid" 2>/dev/null || true
    start_engine || return 1
    silent=0
  done
}

stop_engine() {
  if [ -n "$engine_watch" ]; then kill "$engine_watch" 2>/dev/null || true; fi
  engine_watch=
  [ -n "$engine_pid_file" ] && [ -f "$engine_pid_file" ] || return 0
  pid=$(cat "$engine_pid_file")
  rm -f "$engine_pid_file" "$engine_restarted"
  kill "$pid" 2>/dev/null || true
  # An engine that cannot end its containers must not keep the run from ending.
  waited=0
  while [ "$waited" -lt 60 ] && is_running "$pid"; do
    sleep 1
    waited=$((waited + 1))
  done
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}

is_running() { grep -qs '^State:[[:space:]]*[^Z]' "/proc/$1/status"; }

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
