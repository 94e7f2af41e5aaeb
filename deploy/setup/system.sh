# shellcheck shell=sh
# Part of setup.sh: packages of the operating system. Installed where we may (root, apt), named exactly where we may not.

missing() { ! command -v "$1" >/dev/null 2>&1; }

install_packages() {
  [ "$(uname -s)" = Linux ] || return 0
  wanted=
  if missing bwrap; then wanted="$wanted bubblewrap"; fi
  if ! missing cargo && missing cc; then wanted="$wanted gcc libc6-dev"; fi
  if [ -n "$tests" ]; then
    if missing docker || { missing dockerd && ! docker info >/dev/null 2>&1; }; then wanted="$wanted docker.io iptables"; fi
    if missing debootstrap; then wanted="$wanted debootstrap"; fi
    if missing git; then wanted="$wanted git"; fi
    if missing tmux; then wanted="$wanted tmux"; fi
    # Of the one-node Kubernetes of deploy/cluster.
    for program in ip:iproute2 openssl:openssl curl:curl; do
      if missing "${program%%:*}"; then wanted="$wanted ${program##*:}"; fi
    done
    if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then wanted="$wanted postgresql"; fi
    # Debian leaves `ensurepip` out of python3, and without it a virtual environment has no pip.
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then wanted="$wanted python3 python3-venv"; fi
  fi
  [ -n "$wanted" ] || return 0
  if ! missing apt-get && [ "$(id -u)" -eq 0 ]; then
    say "installing system packages:$wanted"
    apt_install "$wanted" .tools/apt.log && return 0
    say "apt could not install them; the reason is in .tools/apt.log"
  fi
  ask_for "$wanted"
  case $wanted in *bubblewrap*) say "without bubblewrap the local provider runs sandboxes with isolation \"none\"" ;; esac
}

# A browser for the tests: 100 MB, which nothing else of the setup waits for.
install_browser() {
  [ "$(uname -s)" = Linux ] || return 0
  for name in chromium-headless-shell chromium google-chrome; do missing "$name" || return 0; done
  if ! missing apt-get && [ "$(id -u)" -eq 0 ]; then
    say "installing a browser"
    apt_install " chromium-headless-shell" .tools/browser.log && return 0
    say "apt could not install it; the reason is in .tools/browser.log"
  fi
  ask_for " chromium-headless-shell"
}

ask_for() {
  if ! missing apt-get; then
    say "please install:  sudo apt-get install$1"
  else
    say "please install with your package manager (Debian's names):$1"
  fi
}

postgres_clusters=/etc/postgresql-common/createcluster.conf

keep_cluster_away() {
  [ ! -e "$postgres_clusters" ] || return 0
  mkdir -p "${postgres_clusters%/*}"
  echo 'create_main_cluster = false' >"$postgres_clusters"
  kept_away=yes
}

# The package keeps a file that it finds. It gets the one that it would have written.
let_cluster_be_made() {
  rm -f "$postgres_clusters"
  usual=/usr/share/postgresql-common/createcluster.conf
  [ ! -e "$usual" ] || cp "$usual" "$postgres_clusters"
}

# Packages, and where apt's words go.
apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  log=$2
  kept_away=
  installed=0
  # Tests start a PostgreSQL of their own: Debian's package would make one of the machine's, and start it. What is installed later may.
  case $1 in *postgresql*) keep_cluster_away ;; esac
  {
    apt-get update || true # one unreachable source is no reason to give up; a missing package is
    # Since Debian 13 the docker command is a package of its own.
    case $1 in *docker.io*) apt-cache show docker-cli >/dev/null 2>&1 && set -- "$1 docker-cli" "$2" ;; esac
    # shellcheck disable=SC2086 # a list of package names
    apt-get install -y --no-install-recommends -o Acquire::Retries=3 $1
  } >"$log" 2>&1 </dev/null || installed=$?
  if [ -n "$kept_away" ]; then let_cluster_be_made; fi
  return "$installed"
}
