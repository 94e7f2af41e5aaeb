# shellcheck shell=sh
# shellcheck disable=SC2154 # the names are set by settings.sh
# Part of inside.sh: the files that the parts read.

# Its root keeps the images between two runs; its state and socket are this run's. Docker's containerd is another process with others.
write_containerd_config() {
  mkdir -p "$images" "$state/cni/net.d"
  cat >"$state/containerd.toml" <<CONFIG
version = 2
root = "$images"
state = "$run/containerd"
[grpc]
  address = "$containerd_socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "boxoffice.local/pause:1"
  # Root without CAP_SYS_RESOURCE cannot lower oom_score_adj, and runc would end with it.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$debian/root/usr/lib/cni"
    conf_dir = "$state/cni/net.d"
CONFIG
  cat >"$state/cni/net.d/10-boxoffice.conflist" <<CONFIG
{ "cniVersion": "0.4.0", "name": "boxoffice", "plugins": [
  { "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
    "ipam": { "type": "host-local", "dataDir": "$state/cni/addresses", "ranges": [[{ "subnet": "$pod_cidr" }]], "routes": [{ "dst": "0.0.0.0/0" }] } } ] }
CONFIG
}

token() {
  [ -e "$state/pki/$1.token" ] || openssl rand -hex 16 >"$state/pki/$1.token"
  cat "$state/pki/$1.token"
}

write_keys() {
  mkdir -p "$state/pki"
  openssl genrsa -out "$state/pki/accounts.key" 2048 2>/dev/null
  # The API server shows this certificate to the kubelet, which answers nobody without it: a pod could reach the kubelet's port.
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /O=system:masters/CN=kube-apiserver -addext extendedKeyUsage=clientAuth \
    -keyout "$state/pki/kubelet-client.key" -out "$state/pki/kubelet-client.crt" 2>/dev/null
  cat >"$state/pki/tokens.csv" <<CONFIG
$(token admin),admin,admin,"system:masters"
$(token controllers),system:kube-controller-manager,controllers
$(token scheduler),system:kube-scheduler,scheduler
$(token "$node"),system:node:$node,$node,"system:nodes"
CONFIG
}

# The certificate file that the API server wrote holds the authority that signed it too.
write_kubeconfig() {
  cat >"$state/$1.kubeconfig.new" <<CONFIG
apiVersion: v1
kind: Config
clusters: [{ name: boxoffice, cluster: { server: "https://$api_ip", certificate-authority-data: "$(base64 -w 0 <"$state/pki/apiserver.crt")" } }]
users: [{ name: $1, user: { token: "$(token "$1")" } }]
contexts: [{ name: boxoffice, context: { cluster: boxoffice, user: $1 } }]
current-context: boxoffice
CONFIG
  mv "$state/$1.kubeconfig.new" "$state/$1.kubeconfig"
}

write_kubelet_config() {
  mkdir -p "$state/kubelet" "$state/pod-logs"
  : >"$state/resolv.conf"
  cat >"$state/kubelet.yaml" <<CONFIG
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: { anonymous: { enabled: false }, webhook: { enabled: false }, x509: { clientCAFile: "$state/pki/kubelet-client.crt" } }
authorization: { mode: AlwaysAllow }
cgroupDriver: cgroupfs
cgroupRoot: /$name
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
protectKernelDefaults: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
containerRuntimeEndpoint: unix://$containerd_socket
podLogsDir: $state/pod-logs
volumePluginDir: $state/volume-plugins
resolvConf: $state/resolv.conf
clusterDNS: []
imageGCHighThresholdPercent: 100
evictionHard: { memory.available: "100Mi" }
serializeImagePulls: false
maxPods: 500
maxOpenFiles: 20000
oomScoreAdj: 0
nodeStatusUpdateFrequency: 10s
shutdownGracePeriod: 0s
syncFrequency: 1m
CONFIG
}
