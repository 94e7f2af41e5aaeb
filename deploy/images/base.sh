#!/bin/sh
# Makes a base image from Debian (or Ubuntu) packages, for machines that reach a package mirror but no image registry.
# Mirror, proxy and keyring are the machine's own apt configuration.
# usage: base.sh IMAGE
set -eu

image=${1:?usage: base.sh IMAGE}
say() { echo "images: $*" >&2; }

[ "$(id -u)" -eq 0 ] || { say "making a base image from packages needs root"; exit 1; }
if ! command -v debootstrap >/dev/null 2>&1; then
  say "installing system packages: debootstrap"
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends debootstrap; } >/dev/null ||
    { say "please install:  apt-get install debootstrap"; exit 1; }
fi
# shellcheck disable=SC1091 # the system's own file
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$codename" ] || { say "this system names no Debian release in /etc/os-release"; exit 1; }

# apt knows its mirrors in whichever format they are written, but lists only those whose index it has.
targets() {
  apt-get indextargets --format "\$(REPO_URI) \$(RELEASE) \$(CODENAME) \$(COMPONENT)" 'Created-By: Packages' |
    awk -v name="$codename" '$2 == name || $3 == name { print $1, $2, $4 }' | sort -u
}
[ -n "$(targets)" ] || apt-get update >/dev/null
mirror=$(targets | awk 'NR == 1 { print $1 }')
[ -n "$mirror" ] || { say "apt has no source for $codename"; exit 1; }
components=$(targets | awk -v mirror="$mirror" '$1 == mirror && ($3 == "main" || $3 == "universe") { print $3 }' | sort -u | paste -sd, -)
proxy=
eval "$(apt-config shell proxy Acquire::http::Proxy)"
[ -z "$proxy" ] || export http_proxy="$proxy"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
say "making $image from the packages of $codename"
# The scripts of debootstrap need a file system that allows devices and programs; /tmp may forbid them, and says so here.
debootstrap --variant=minbase --components="$components" "$codename" "$work/root" "$mirror" >"$work/log" 2>&1 ||
  { tail -n 20 "$work/log" >&2; say "debootstrap failed"; exit 1; }

# As the official slim images do: no manuals, now and for what is installed later.
cat >"$work/root/etc/dpkg/dpkg.cfg.d/slim" <<'SLIM'
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/lintian/*
SLIM
find "$work/root/usr/share/doc" -mindepth 2 ! -type d ! -name copyright -delete
rm -rf "$work/root/usr/share/man" "$work/root/usr/share/info" "$work/root/usr/share/locale" "$work/root/usr/share/lintian" \
  "$work/root"/var/lib/apt/lists/* "$work/root"/var/cache/apt/* "$work/root"/var/log/*.log "$work/root/etc/resolv.conf" "$work/root/etc/hostname"

# Updates and security fixes as on this machine; debootstrap writes only the mirror it used.
apt-get indextargets --format "deb \$(REPO_URI) \$(RELEASE) $(echo "$components" | tr , ' ')" 'Created-By: Packages' |
  awk -v name="$codename" -v mirror="$mirror" 'index($3, name) == 1 && ($2 == mirror || $3 ~ /-(security|updates)$/)' | sort -u >"$work/root/etc/apt/sources.list"

tar -C "$work/root" -c . | docker import --change 'CMD ["/bin/bash"]' - "$image" >/dev/null
