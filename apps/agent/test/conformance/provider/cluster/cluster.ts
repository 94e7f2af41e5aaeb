import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Access } from '../../../../src/providers/kubernetes/access.ts'

/** Of the one-node cluster (`npm run cluster`). */
export const NODE = 'node1'
const NETWORK = '/run/boxoffice-cluster/network'
const API = ['172.30.79.1', '443'] as const
const ROOT = join(import.meta.dirname, '../../../../../..')

export const kubectl = async (args: readonly string[], input = ''): Promise<string> => {
  const child = spawn('sh', ['deploy/cluster/cluster.sh', 'kubectl', ...args], { cwd: ROOT })
  // One that ended before it read tells so by its exit.
  child.stdin.on('error', () => {}).end(input)
  const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  if (code !== 0) throw new Error(`kubectl ${args.join(' ')}: ${errors}`)
  return output
}

const AGENT = 'boxoffice-agent'

/** A namespace with the agent's account, which may do there what docs/kubernetes.md says, and nothing else. */
const objectsIn = (namespace: string): object[] => {
  const metadata = { name: AGENT, namespace }
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: AGENT }
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata },
      rules: [
        { apiGroups: [''], resources: ['pods'], verbs: ['create', 'get', 'list', 'watch', 'delete'] },
        { apiGroups: [''], resources: ['podtemplates'], verbs: ['create', 'get', 'list', 'delete'] },
      ],
    },
    {
      ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'RoleBinding', metadata, roleRef },
      subjects: [{ kind: 'ServiceAccount', name: AGENT, namespace }],
    },
  ]
}

export type ClusterNamespace = AsyncDisposable & {
  /** As an agent has it: the token of its service account. */
  access: Access
  kubectl(args: readonly string[], input?: string): Promise<string>
}

/** The API of the running cluster, reached from outside of its network, for whoever has a token. Ends with it. */
export const useClusterApi = async (): Promise<AsyncDisposable & Pick<Access, 'server' | 'ca' | 'insecure'>> => {
  const config = JSON.parse(await kubectl(['config', 'view', '--raw', '--minify', '-o', 'json']))
  const ca = Buffer.from(config.clusters[0].cluster['certificate-authority-data'], 'base64').toString()
  const forwarder = await forwardTo(...API)
  return {
    server: `https://localhost:${forwarder.port}`,
    ca,
    insecure: false,
    [Symbol.asyncDispose]: () => forwarder[Symbol.asyncDispose](),
  }
}

/** A port of this machine that leads to an address in the cluster's network. Ends with it. */
export const forwardTo = async (host: string, hostPort: string): Promise<AsyncDisposable & { port: number }> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const script = join(import.meta.dirname, 'forwarder.mjs')
  const forwarder = spawn('nsenter', [`--net=${NETWORK}`, process.execPath, script, host, hostPort], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  forwarder.send('listen', server)
  await once(forwarder, 'message')
  server.close()
  return {
    port,
    async [Symbol.asyncDispose]() {
      const ended = once(forwarder, 'exit')
      forwarder.disconnect()
      await ended
    },
  }
}

/** A namespace of the running cluster, and a way to its API from outside of its network. Both end with it. */
export const useNamespace = async (name: string): Promise<ClusterNamespace> => {
  const list = { apiVersion: 'v1', kind: 'List', items: objectsIn(name) }
  await kubectl(['apply', '-f', '-'], JSON.stringify(list))
  // Pods are refused until it is there.
  await kubectl(['wait', '--for=create', '--timeout=120s', '-n', name, 'serviceaccount/default'])
  const token = (await kubectl(['create', 'token', AGENT, '-n', name])).trim()
  const { [Symbol.asyncDispose]: end, ...api } = await useClusterApi()
  return {
    access: { ...api, token: () => token, namespace: name },
    kubectl: (args, input) => kubectl(['-n', name, ...args], input),
    async [Symbol.asyncDispose]() {
      await end()
      await kubectl(['delete', 'namespace', name, '--wait'])
    },
  }
}
