# shellcheck shell=sh
# shellcheck disable=SC2154 # state and run are set by settings.sh
# Part of cluster.sh: the settings of the kernel that a kubelet wants changed for the whole machine. It must not change them, so inside
# its mount namespace each is covered by a file that already has the value it wants. They are saved and compared all the same.

kernel_settings='vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000'

save_kernel_settings() {
  for wanted in $kernel_settings; do
    [ ! -e "/proc/sys/${wanted%%=*}" ] || echo "${wanted%%=*}=$(cat "/proc/sys/${wanted%%=*}")"
  done >"$run/sysctls"
}

# Only inside the cluster's mount namespace.
cover_kernel_settings() {
  mkdir -p "$state/sysctls"
  for wanted in $kernel_settings; do
    setting=${wanted%%=*}
    [ -e "/proc/sys/$setting" ] || continue
    cover=$state/sysctls/$(echo "$setting" | tr / .)
    echo "${wanted##*=}" >"$cover"
    mount --bind "$cover" "/proc/sys/$setting"
  done
}

restore_kernel_settings() {
  [ -e "$run/sysctls" ] || return 0
  while IFS='=' read -r setting value; do
    [ "$(cat "/proc/sys/$setting")" = "$value" ] || echo "$value" >"/proc/sys/$setting"
  done <"$run/sysctls"
}
