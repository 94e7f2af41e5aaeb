import { isAbsolute } from 'node:path'
import { isLoopback } from '@boxoffice/kit/is-loopback'
import { parseListenAddress } from '@boxoffice/kit/listen-address'
import { FastIo, Rate } from '@boxoffice/node-http'
import { PreviewDomain, RelayPreference } from '@boxoffice/protocol'
import { z } from 'zod'
import { PROVIDERS, type ProviderName } from '../providers/candidates.ts'

const port = z.number().int().min(0).max(65_535)
const httpUrl = z.url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
/** As Kubernetes takes the names of nodes, namespaces and classes. */
const dnsName = z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, 'must be a name as Kubernetes has it: a-z, 0-9, - and .')
const listenAddress = z
  .string()
  .regex(/^(?:\[[0-9a-fA-F:.]+\]|[^:\s]+):\d{1,5}$/, 'must be host:port, as in 127.0.0.1:7072')
  .refine((value) => parseListenAddress(value).port <= 65_535, 'the port must be at most 65535')

/** Settings of the agent. The descriptions are what `--help` and docs/configuration.md say; a default is added to them there. */
export const AgentConfig = z
  .object({
    dataDir: z.string().refine(isAbsolute, 'must be an absolute path').describe('directory that holds everything that persists'),
    host: z.string().min(1).default('127.0.0.1').describe('address to listen on'),
    port: port.default(7071).describe('port of the agent; 0 chooses a free one'),
    publicUrl: httpUrl.optional().describe('URL at which clients reach the agent; default: where it listens'),
    brokerUrl: httpUrl.describe('URL of the broker to serve'),
    enrollToken: z.string().min(1).optional().describe('token that the broker wants to see; required without kubernetes.enroll_token_file'),
    controlListen: listenAddress
      .default('127.0.0.1:0')
      .describe('address at which the agent listens for the broker, host:port; port 0 chooses a free one'),
    controlUrl: httpUrl.optional().describe('URL at which the broker reaches that listener; default: where it listens'),
    /** [C-79] */
    insecureNetwork: z.boolean().default(false).describe('says that the network of --control-listen is private, so that it needs no TLS'),
    tlsCert: z.string().optional().describe('PEM certificate, to listen with TLS'),
    tlsKey: z.string().optional().describe('PEM key of the certificate'),
    relay: RelayPreference.default('auto').describe('whether clients go through the broker: auto (as they ask), always or never'),
    /** [4-153] */
    dataplaneListen: z
      .string()
      .regex(/^unix:\/./, 'must be unix: and an absolute path, as in unix:/run/boxoffice/agent.sock')
      .optional()
      .describe('unix socket that replaces host and port; needs --relay always'),
    dataplaneUrl: z
      .url({ protocol: /^(?:https?|unix)$/, error: 'must be an http://, https:// or unix: URL' })
      .optional()
      .describe('URL at which brokers reach the agent to relay; default: the one of clients'),
    previewDomain: PreviewDomain.optional().describe(
      'domain below which exposed ports have hosts that lead to this agent, by https; default: that of the broker',
    ),
    provider: z
      .enum(['auto', ...(Object.keys(PROVIDERS) as ProviderName[])])
      .default('auto')
      .describe('provider of sandboxes: auto, docker, local or kubernetes'),
    isolation: z.enum(['auto', 'bubblewrap', 'none']).default('auto').describe('isolation of the local provider: auto, bubblewrap or none'),
    allowUnsafeLocal: z.boolean().default(false).describe('allows isolation none behind a listener that others can reach'),
    sameUser: z
      .boolean()
      .default(false)
      .describe("runs sandboxes of isolation none as the agent's own user, also where that is root; needs provider local"),
    dockerHost: z.string().min(1).optional().describe('address of the container engine; default: DOCKER_HOST, else the usual sockets'),
    kubernetes: z
      .strictObject({
        nodeName: dnsName.optional().describe('node that the agent is on, as spec.nodeName has it; the kubernetes provider needs it'),
        namespace: dnsName.optional().describe("namespace of the sandboxes; default: the agent's own"),
        kubeconfig: z
          .string()
          .refine(isAbsolute, 'must be an absolute path')
          .optional()
          .describe('JSON kubeconfig with a token or a client certificate; default: the service account of the pod that the agent is'),
        enrollTokenFile: z
          .string()
          .refine(isAbsolute, 'must be an absolute path')
          .optional()
          .describe(
            'file of a service account token for the broker, by which the agent registers as that of its node; default: the enroll token',
          ),
        imagePullPolicy: z
          .enum(['IfNotPresent', 'Always', 'Never'])
          .default('IfNotPresent')
          .describe('when the node pulls images: IfNotPresent, Always or Never'),
        serviceAccount: dnsName
          .optional()
          .describe(
            "service account of the sandboxes, whose imagePullSecrets are used; they get no token; default: the namespace's default",
          ),
        runtimeClasses: z
          .array(dnsName)
          .default([])
          .describe('RuntimeClasses that profiles may name as oci_runtime, separated by commas; default: none'),
      })
      .prefault({})
      .describe('settings of the kubernetes provider'),
    hostMirrors: z
      .boolean()
      .default(true)
      .describe('hands the package mirrors that this machine is configured with to sandboxes that go out through the proxy'),
    egressProxy: z
      .union([z.literal('none'), httpUrl])
      .optional()
      .describe(
        'URL of the proxy that what leaves sandboxes goes through, which then resolves names, or none; default: HTTPS_PROXY, without the hosts of NO_PROXY',
      ),
    defaultImage: z.string().min(1).default('boxoffice/sandbox:latest').describe('image of profiles that name none'),
    supervisorPath: z.string().optional().describe('supervisor binary; default: the one that ships with the agent'),
    /** [2-113] */
    allowedHostMountRoots: z
      .array(z.string().refine(isAbsolute, 'must be absolute paths'))
      .default([])
      .describe('directories below which host paths may be mounted into sandboxes, separated by commas; default: none'),
    defaultHostWorkspace: z
      .string()
      .refine(isAbsolute, 'must be an absolute path')
      .optional()
      .describe('directory that is the workspace of all sandboxes for which none is named; default: each has its own'),
    blockedHostPaths: z
      .array(z.string().refine(isAbsolute, 'must be absolute paths'))
      .default([])
      .describe('host paths that are never mounted, beside the built-in ones, separated by commas'),
    poolConcurrency: z.number().int().min(1).max(32).default(2).describe('sandboxes of warm pools that are made at once'),
    /** [C-45] */
    reserve: z
      .strictObject({
        descriptors: z.number().int().min(0).optional().describe("open files of the agent; default: by the machine's size"),
        pids: z.number().int().min(0).optional().describe("processes and threads; default: by the machine's size"),
        memoryMb: z.number().int().min(0).optional().describe("memory in MiB; default: by the machine's size"),
      })
      .prefault({})
      .describe('what new sandboxes leave free of the machine'),
    maxSandboxes: z
      .number()
      .int()
      .min(1)
      .optional()
      .describe('sandboxes of the agent at most, those of its pools too; default: as many as its machine has room for'),
    /** [C-69] */
    corsOrigins: z.array(z.string()).default([]).describe('web origins that may call, separated by commas'),
    trustedProxies: z
      .array(z.string())
      .default([])
      .describe('addresses of proxies and brokers, which connect for many clients, separated by commas'),
    maxConnections: z.number().int().min(16).default(8192).describe('connections of each listener at most'),
    /** [C-58] */
    dataplaneRates: z
      .strictObject({
        execPerPrincipal: Rate.optional().describe('commands of a principal; default: not limited'),
        execPerTenant: Rate.optional().describe('commands of a tenant; default: not limited'),
        wsOpenPerPrincipal: Rate.optional().describe('WebSockets that a principal opens; default: not limited'),
        wsOpenPerTenant: Rate.optional().describe('WebSockets that a tenant opens; default: not limited'),
      })
      .prefault({})
      .describe(
        'commands and WebSockets per second and burst, as JSON, e.g. {"exec_per_principal":{"per_second":20,"burst":100}}; default: not limited',
      ),
    fastIo: FastIo.prefault({}).describe('switches of what is there only for speed, as JSON, e.g. {"splice":false}; default: all on'),
    destroyOnExit: z.boolean().default(false).describe('ends all sandboxes when the agent stops; default: they stay'),
  })
  .refine(({ enrollToken, kubernetes }) => (enrollToken === undefined) !== (kubernetes.enrollTokenFile === undefined), {
    path: ['enrollToken'],
    error: 'is required, unless kubernetes.enroll_token_file is there, and not beside it',
  })
  .refine(({ kubernetes: { enrollTokenFile, nodeName } }) => enrollTokenFile === undefined || nodeName !== undefined, {
    path: ['kubernetes'],
    error: 'enroll_token_file needs node_name',
  })
  .refine(({ tlsCert, tlsKey }) => (tlsCert === undefined) === (tlsKey === undefined), {
    path: ['tlsKey'],
    error: 'tlsCert and tlsKey belong together',
  })
  .refine(({ sameUser, provider, isolation }) => !sameUser || (provider === 'local' && isolation === 'none'), {
    path: ['sameUser'],
    error: 'goes with provider local and isolation none: whatever is isolated has a user of its own',
  })
  .refine(({ dataplaneListen, relay }) => dataplaneListen === undefined || relay === 'always', {
    path: ['dataplaneListen'],
    error: 'clients cannot reach a unix socket; it goes with --relay always',
  })
  .refine(
    ({ controlListen, tlsCert, insecureNetwork }) =>
      isLoopback(parseListenAddress(controlListen).host) || tlsCert !== undefined || insecureNetwork,
    {
      path: ['controlListen'],
      error: 'an address that others can reach needs --tls-cert and --tls-key, or --insecure-network on a private network',
    },
  )
export type AgentConfig = z.output<typeof AgentConfig>

/** Whether only this machine can reach what listens there and is known by that URL. */
export const isLocal = (host: string, publicUrl: string | undefined): boolean =>
  isLoopback(host) && (publicUrl === undefined || isLoopback(new URL(publicUrl).hostname))
