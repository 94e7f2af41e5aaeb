#!/bin/sh
# The first process of the cluster's process namespace: starts the parts, waits, and when it ends the kernel ends all of them, the pods
# too. Started by up.sh, in network, mount and process namespaces of the cluster's own.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
# shellcheck source=deploy/cluster/settings.sh
. "$here/settings.sh"
# shellcheck source=deploy/cluster/sysctls.sh
. "$here/sysctls.sh"
# shellcheck source=deploy/cluster/config.sh
. "$here/config.sh"

trap 'exit 0' TERM INT
PATH=$program:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

part() {
  log=$state/logs/$1.log
  shift
  "$@" >"$log" 2>&1 </dev/null &
}

# What containerd, runc, the network plugins and the kubelet write at places that no option changes.
for place in /run/containerd /var/lib/cni /var/log; do mount -t tmpfs none "$place"; done
cover_kernel_settings

ip link set lo up
ip link add node0 type bridge
ip address add "$node_ip/24" dev node0
# Without kube-proxy nothing leads to a service. The API listens at its service's own address instead, so pods find it there.
ip address add "$api_ip/32" dev node0
ip link set node0 up
ip route add default dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward

write_containerd_config
part containerd containerd --config "$state/containerd.toml"
part etcd etcd --data-dir "$state/etcd" --logger zap --log-level warn \
  --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380

write_keys
part apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --cert-dir "$state/pki" --secure-port 443 --bind-address 0.0.0.0 \
  --advertise-address "$node_ip" --token-auth-file "$state/pki/tokens.csv" --authorization-mode Node,RBAC --service-cluster-ip-range "$service_cidr" \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$state/pki/accounts.key" \
  --service-account-signing-key-file "$state/pki/accounts.key" --enable-admission-plugins NodeRestriction --endpoint-reconciler-type none \
  --allow-privileged=true --kubelet-preferred-address-types InternalIP \
  --kubelet-client-certificate "$state/pki/kubelet-client.crt" --kubelet-client-key "$state/pki/kubelet-client.key"
until curl -sk --max-time 5 "https://$api_ip/readyz" 2>/dev/null | grep -q '^ok$'; do sleep 0.1; done

for who in admin controllers scheduler "$node"; do write_kubeconfig "$who"; done
part controllers kube-controller-manager --kubeconfig "$state/controllers.kubeconfig" --service-account-private-key-file "$state/pki/accounts.key" \
  --root-ca-file "$state/pki/apiserver.crt" --use-service-account-credentials=true --leader-elect=false --bind-address 127.0.0.1 --cert-dir "$state/pki/controllers"
part scheduler kube-scheduler --kubeconfig "$state/scheduler.kubeconfig" --leader-elect=false --bind-address 127.0.0.1 --cert-dir "$state/pki/scheduler"
write_kubelet_config
part kubelet kubelet --config "$state/kubelet.yaml" --kubeconfig "$state/$node.kubeconfig" --hostname-override "$node" --node-ip "$node_ip" \
  --root-dir "$state/kubelet" --cert-dir "$state/pki/kubelet" --node-labels boxoffice.dev/agent=yes -v=2
wait
