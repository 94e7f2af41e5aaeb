# shellcheck shell=sh
# shellcheck disable=SC2154 # the names are set by settings.sh
# Part of cluster.sh: the images of the node. No registry is asked: the sandbox image is the one in the Docker engine of this machine.

sandbox=boxoffice/sandbox:latest

prepare_sandbox_image() {
  ensure_engine || exit 1
  sh deploy/images/build.sh
}

# containerd keeps what it has unpacked, so an image is imported when it is a new one only.
import_images() {
  has 'boxoffice.local/pause:1' "$program" || {
    tar -C "$program" -c pause | docker import --change 'ENTRYPOINT ["/pause"]' - boxoffice.local/pause:1 >/dev/null
    import_image 'boxoffice.local/pause:1'
    docker image rm boxoffice.local/pause:1 >/dev/null
    imported 'boxoffice.local/pause:1' "$program"
  }
  import_when_new "$sandbox"
}

# An image of the Docker engine by its name there.
import_when_new() {
  content=$(docker image inspect --format '{{.Id}}' "$1")
  has "docker.io/$1" "$content" || {
    import_image "$1"
    imported "docker.io/$1" "$content"
  }
}

# A truncated archive of an engine that fails is an error of ctr too.
import_image() {
  docker save "$1" | timeout 600 ctr -a "$containerd_socket" -n k8s.io images import - >/dev/null ||
    fail "the image $1 could not be imported into the node within 600 s; what docker and ctr say is above, and more in $state/logs/containerd.log"
}

# has NAME CONTENT, imported NAME CONTENT: which content was imported under this name.
note_of() { echo "$images/$(echo "$1" | tr /: --).imported"; }
has() { [ "$(cat "$(note_of "$1")" 2>/dev/null)" = "$2" ] && ctr_here images ls -q | grep -qxF "$1"; }
imported() { echo "$2" >"$(note_of "$1")"; }
