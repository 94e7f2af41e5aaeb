import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { z } from 'zod'

/** Where a Kubernetes API is, and as whom it is called. */
export type Access = {
  server: string
  /** PEM of who has signed the server's certificate; undefined: the ones that Node trusts. */
  ca?: string | undefined
  /** Only where the kubeconfig says so: the server's certificate is not looked at. */
  insecure: boolean
  /** PEM of a client certificate. */
  client?: { cert: string; key: string } | undefined
  /** The bearer token as it is now: those of service accounts are replaced while the agent runs. */
  token: (() => string) | undefined
  /** Of whoever calls, where it is known. */
  namespace?: string | undefined
}

/** Where the kubelet mounts the token of a pod's service account. */
const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

/** The access of this pod's service account; undefined where this is no pod, or one without a token. */
export const podAccess = (environment: NodeJS.ProcessEnv = process.env, directory = SERVICE_ACCOUNT): Access | undefined => {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = environment
  if (host === undefined || host === '') return undefined
  const file = (name: string): string => readFileSync(`${directory}/${name}`, 'utf8').trim()
  try {
    file('token')
    const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`
    return { server, ca: file('ca.crt'), insecure: false, token: () => file('token'), namespace: file('namespace') }
  } catch {
    return undefined
  }
}

const Cluster = z.looseObject({
  server: z.url({ protocol: /^https?$/ }),
  'certificate-authority': z.string().optional(),
  'certificate-authority-data': z.string().optional(),
  'insecure-skip-tls-verify': z.boolean().default(false),
})
const User = z.looseObject({
  token: z.string().optional(),
  tokenFile: z.string().optional(),
  'client-certificate': z.string().optional(),
  'client-certificate-data': z.string().optional(),
  'client-key': z.string().optional(),
  'client-key-data': z.string().optional(),
})
const Context = z.looseObject({ cluster: z.string(), user: z.string(), namespace: z.string().optional() })
const Kubeconfig = z.looseObject({
  'current-context': z.string(),
  contexts: z.array(z.looseObject({ name: z.string(), context: Context })),
  clusters: z.array(z.looseObject({ name: z.string(), cluster: Cluster })),
  users: z.array(z.looseObject({ name: z.string(), user: User })),
})

/**
 * The access of a kubeconfig's current context: token, token file or client certificate. The file is JSON, as
 * `kubectl config view --raw --minify --output json` writes it. Errors name the file and what is wrong, never what is in it.
 */
export const kubeconfigAccess = (path: string): Access => {
  const parsed = Kubeconfig.safeParse(readJson(path))
  if (!parsed.success) throw new Error(`the kubeconfig ${path} is not one: ${wrongIn(parsed.error)}`)
  const { contexts, clusters, users, 'current-context': current } = parsed.data
  const find = <T extends { name: string }>(entries: readonly T[], name: string): T => {
    const found = entries.find((entry) => entry.name === name)
    if (found === undefined) throw new Error(`the kubeconfig ${path} has nothing of the name "${name}"`)
    return found
  }
  const { context } = find(contexts, current)
  const { cluster } = find(clusters, context.cluster)
  const { user } = find(users, context.user)
  // Paths in the file are relative to it.
  const read = (name: string): string => readFileSync(resolve(dirname(path), name), 'utf8').trim()
  const given = (data: string | undefined, file: string | undefined): string | undefined =>
    data === undefined ? file && read(file) : Buffer.from(data, 'base64').toString()
  const cert = given(user['client-certificate-data'], user['client-certificate'])
  const key = given(user['client-key-data'], user['client-key'])
  const { token, tokenFile } = user
  if (cert === undefined && token === undefined && tokenFile === undefined)
    throw new Error(`the kubeconfig ${path} has neither a token nor a client certificate; commands that make them are not run`)
  return {
    server: cluster.server,
    ca: given(cluster['certificate-authority-data'], cluster['certificate-authority']),
    insecure: cluster['insecure-skip-tls-verify'],
    client: cert === undefined || key === undefined ? undefined : { cert, key },
    token: tokenFile !== undefined ? () => read(tokenFile) : token === undefined ? undefined : () => token,
    namespace: context.namespace,
  }
}

const readJson = (path: string): unknown => {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    const why =
      error instanceof SyntaxError ? 'it is not JSON; kubectl config view --raw --minify --output json writes that' : codeOf(error)
    throw new Error(`the kubeconfig ${path} cannot be read: ${why}`, { cause: error })
  }
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? 'unknown reason'
const wrongIn = ({ issues }: z.ZodError): string => issues.map(({ path }) => path.join('.')).join(', ')
