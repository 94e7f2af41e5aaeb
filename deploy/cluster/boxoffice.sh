# shellcheck shell=sh
# shellcheck disable=SC2154 # the names are set by settings.sh
# Part of cluster.sh: Boxoffice on the cluster, from its chart: PostgreSQL of Debian, two brokers and the agent of the node.

system=boxoffice-system
postgres=$run/postgres
boxoffice_port=7070

# boxoffice ARGS…: arguments go to helm, as --set.
boxoffice() {
  up >/dev/null
  began=$(now_ms)
  ensure_engine || exit 1
  build_product
  timed 'images of broker and agent'
  start_postgres
  start_balancer
  in_cluster create namespace "$system" --dry-run=client -o yaml | in_cluster apply -f - >/dev/null
  in_cluster label namespace "$system" --overwrite pod-security.kubernetes.io/enforce=privileged >/dev/null
  make_secrets
  say 'installing the chart'
  helm_in_cluster upgrade --install boxoffice deploy/helm/boxoffice --namespace "$system" --values deploy/cluster/boxoffice.yaml \
    --set "publicUrl=http://$node_ip:$boxoffice_port" --set "agent.brokerUrl=http://$node_ip:$boxoffice_port" "$@" >/dev/null
  # The same tags may be new images.
  [ ! -e "$run/boxoffice" ] || in_cluster -n "$system" rollout restart deployment/boxoffice-broker daemonset/boxoffice-agent >/dev/null
  : >"$run/boxoffice"
  for what in deployment/boxoffice-broker daemonset/boxoffice-agent; do
    in_cluster -n "$system" rollout status "$what" --timeout=300s >/dev/null ||
      { in_cluster -n "$system" get pods >&2; in_cluster -n "$system" logs "$what" --all-pods --tail 5 >&2; fail "$what did not become ready"; }
  done
  timed 'brokers and agent'
  boxoffice_usage
}

# A base with Node where none is given; then the two images, imported where they are new.
build_product() {
  [ -n "${BASE:-}" ] || { sh deploy/images/node.sh boxoffice/node:24; BASE=boxoffice/node:24; }
  export BASE
  sh deploy/images/product.sh
  for image in boxoffice/broker:latest boxoffice/agent:latest; do import_when_new "$image"; done
}

# inside COMMAND…: among the cluster's processes, so it ends with them.
inside() { nsenter --target "$(first_child "$process")" --net --pid --mount "$@"; }

# On the machine's side of the node, in the cluster's network: pods reach it at the node's address.
start_postgres() {
  running || fail 'the cluster has ended'
  [ ! -e "$postgres/data/postmaster.pid" ] || return 0
  bin=$(find /usr/lib/postgresql -path '*/bin/initdb' 2>/dev/null | sort -V | tail -n 1)
  [ -n "$bin" ] || fail "PostgreSQL is missing: apt-get install postgresql"
  bin=${bin%/initdb}
  rm -rf "$postgres"
  mkdir -p "$postgres"
  openssl rand -hex 24 >"$postgres/password"
  chmod 600 "$postgres/password"
  chown -R postgres: "$postgres"
  as_postgres="setpriv --reuid=postgres --regid=postgres --clear-groups"
  (cd / && $as_postgres "$bin/initdb" -D "$postgres/data" -U boxoffice -A scram-sha-256 --pwfile="$postgres/password" -E UTF8 --locale=C.UTF-8 --no-sync >/dev/null)
  echo "host all all 172.30.0.0/16 scram-sha-256" >>"$postgres/data/pg_hba.conf"
  # shellcheck disable=SC2086 # a command and its words
  (cd / && inside $as_postgres "$bin/pg_ctl" -D "$postgres/data" -w -t 60 -l "$postgres/log" \
    -o "-c listen_addresses=$node_ip -c unix_socket_directories=$postgres -c fsync=off" start >/dev/null) ||
    { tail -n 5 "$postgres/log" >&2; fail 'PostgreSQL did not start'; }
  nsenter --net="$network" env PGPASSWORD="$(cat "$postgres/password")" "$bin/psql" -qX -h "$node_ip" -U boxoffice -d postgres -c 'CREATE DATABASE boxoffice'
}

# There is no kube-proxy, so nothing leads to the Service of the brokers.
start_balancer() {
  [ ! -e "$run/balancer" ] || return 0
  : >"$run/balancer"
  setsid nsenter --target "$(first_child "$process")" --net --pid --mount "$PWD/.tools/node" --disable-warning=ExperimentalWarning "$PWD/deploy/cluster/balancer.ts" \
    "$state" "https://$api_ip" "$node_ip:$boxoffice_port" "$system" boxoffice-broker >"$state/logs/balancer.log" 2>&1 </dev/null &
}

make_secrets() {
  folder=$run/secrets
  [ -e "$folder/api-key" ] || {
    mkdir -p "$folder"
    chmod 700 "$folder"
    openssl rand -base64 33 | tr -d '\n' >"$folder/api-key"
    rm -f "$folder/secret-keys"
    apps/cli/bin/boxoffice keys make-secret-key "$folder/secret-keys" >/dev/null
  }
  printf 'postgres://boxoffice:%s@%s:5432/boxoffice' "$(cat "$postgres/password")" "$node_ip" >"$folder/url"
  apply_secret boxoffice-database url
  apply_secret boxoffice-secret-key secret-keys
  apply_secret boxoffice-api-key api-key
}

apply_secret() {
  in_cluster -n "$system" create secret generic "$1" --from-file="$2=$folder/$2" --dry-run=client -o yaml | in_cluster -n "$system" apply -f - >/dev/null
}

boxoffice_usage() {
  cat <<USAGE
cluster: Boxoffice runs there, from deploy/helm/boxoffice
  brokers      http://$node_ip:$boxoffice_port    (two, with PostgreSQL behind them)
  API key      $run/secrets/api-key
  try          nsenter --net=$network env BOXOFFICE_URL=http://$node_ip:$boxoffice_port BOXOFFICE_API_KEY="\$(cat $run/secrets/api-key)" \\
                 $PWD/apps/cli/bin/boxoffice exec --thread demo -- uname -a
  pods         npm run --silent cluster -- kubectl get pods -A
  end          npm run cluster -- down
USAGE
}
