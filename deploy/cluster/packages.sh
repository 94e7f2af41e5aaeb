#!/bin/sh
# Brings the network plugins: a package of Debian, unpacked into the cache and not installed.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
# shellcheck source=deploy/cluster/settings.sh
. "$here/settings.sh"

packages='containernetworking-plugins'
[ "$(cat "$debian/packages" 2>/dev/null)" != "$packages" ] || exit 0
missing apt-get && fail "the network plugins come from a package of Debian, and this system has no apt-get"
say "fetching from Debian: $packages"
rm -rf "$debian"
mkdir -p "$debian/new"
cd "$debian/new"
# An old list names versions that the mirror has no more.
# shellcheck disable=SC2086 # a list of package names
apt-get -qq -o APT::Sandbox::User=root download $packages 2>"$debian/log" ||
  { apt-get -qq update 2>>"$debian/log" || true; apt-get -qq -o APT::Sandbox::User=root download $packages 2>>"$debian/log"; } ||
  { cat "$debian/log" >&2; fail "apt-get could not fetch: $packages"; }
for package in *.deb; do dpkg-deb -x "$package" "$debian/root"; done
rm -rf "$debian/new"
echo "$packages" >"$debian/packages"
