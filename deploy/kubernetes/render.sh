#!/bin/sh
# Writes boxoffice.yaml, beside this, from the chart. Needs Go the first time, for helm.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
cd "$here/../.."
sh deploy/cluster/cluster.sh helm template boxoffice deploy/helm/boxoffice --namespace boxoffice-system \
  --set namespaces.createSystem=true >"$here/boxoffice.yaml.new"
mv "$here/boxoffice.yaml.new" "$here/boxoffice.yaml"
