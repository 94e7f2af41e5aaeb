# shellcheck shell=sh
# shellcheck disable=SC2154 # root and here are set by setup.sh
# Part of setup.sh --tests: one virtual environment for each file in deploy/setup/python. NAME.txt, which pins its packages, makes
# .tools/NAME. Packages that must not meet in one environment have a file each.

install_python() {
  python=
  for candidate in python3 python3.13 python3.12 python3.11; do
    "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && python=$candidate && break
  done
  [ -n "$python" ] || { say "no Python ≥ 3.11 with venv here: install python3 and python3-venv"; exit 1; }
  for requirements in "$here"/python/*.txt; do
    make_environment "$(basename "$requirements" .txt)" "$requirements"
  done
}

make_environment() {
  environment=$root/.tools/$1
  stamp="$(cksum <"$2") $("$python" --version) $root"
  [ "$(cat "$environment/.boxoffice-setup" 2>/dev/null)" = "$stamp" ] && return
  say "installing the Python packages of .tools/$1"
  rm -rf "$environment"
  "$python" -m venv "$environment" >".tools/$1.log" 2>&1 || { cat ".tools/$1.log" >&2; say "could not make .tools/$1"; exit 1; }
  tries=1
  until "$environment/bin/pip" install --no-input --disable-pip-version-check --retries 5 --timeout 60 -r "$2" >>".tools/$1.log" 2>&1 </dev/null; do
    [ "$tries" -lt 3 ] || { tail -n 20 ".tools/$1.log" >&2; say "could not install the packages of .tools/$1"; exit 1; }
    tries=$((tries + 1))
  done
  echo "$stamp" >"$environment/.boxoffice-setup"
}
