import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ClusterNamespace, NODE, useNamespace } from '../../../../apps/agent/test/conformance/provider/cluster/cluster.ts'
import { KUBERNETES_SETTINGS } from './agent-env.ts'

/** A namespace of the running one-node cluster (`npm run cluster`), in which the agents that are started meanwhile make their pods. */
export const useKubernetes = async (): Promise<AsyncDisposable & Pick<ClusterNamespace, 'access'> & { namespace: string }> => {
  await using parts = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'bxo-kubeconfig-'))
  parts.defer(() => rm(directory, { recursive: true, force: true }))
  const name = `boxoffice-e2e-${randomBytes(4).toString('hex')}`
  const { access } = parts.use(await useNamespace(name))
  const cluster = { server: access.server, 'certificate-authority-data': Buffer.from(access.ca ?? '').toString('base64') }
  const kubeconfig = join(directory, 'kubeconfig')
  const config = {
    'current-context': name,
    contexts: [{ name, context: { cluster: name, user: name, namespace: name } }],
    clusters: [{ name, cluster }],
    users: [{ name, user: { token: access.token?.() } }],
  }
  await writeFile(kubeconfig, JSON.stringify(config), { mode: 0o600 })
  process.env[KUBERNETES_SETTINGS] = JSON.stringify({ node_name: NODE, namespace: name, kubeconfig })
  const owned = parts.move()
  return { access, namespace: name, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}
