import { isAbsolute } from 'node:path'
import { Rate, RelayPreference } from '@boxoffice/protocol'
import { z } from 'zod'
import { PROVIDERS, type ProviderName } from '../providers/candidates.ts'

const port = z.number().int().min(0).max(65_535)
const httpUrl = z.url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
const listenAddress = z
  .string()
  .regex(/^(?:\[[0-9a-fA-F:.]+\]|[^:\s]+):\d{1,5}$/, 'must be host:port, as in 127.0.0.1:7072')
  .refine((value) => Number(value.slice(value.lastIndexOf(':') + 1)) <= 65_535, 'the port must be at most 65535')

/** Everything that the agent can be told. Names are those of the flags, in camel case. */
export const AgentConfig = z
  .object({
    /** Holds everything that persists. */
    dataDir: z.string().refine(isAbsolute, 'must be an absolute path'),
    host: z.string().min(1).default('127.0.0.1'),
    port: port.default(7071),
    /** What clients reach the agent by; default: its listener. */
    publicUrl: httpUrl.optional(),
    brokerUrl: httpUrl,
    enrollToken: z.string().min(1),
    /** The control listener. Port 0 is a free one. */
    controlListen: listenAddress.default('127.0.0.1:0'),
    /** What the broker reaches the control listener by; default: the listener itself. */
    controlUrl: httpUrl.optional(),
    /** Says that the network of the control listener is itself private, so that it may do without TLS [C-79]. */
    insecureNetwork: z.boolean().default(false),
    /** Paths of a PEM certificate and key for both listeners. */
    tlsCert: z.string().optional(),
    tlsKey: z.string().optional(),
    /** Whether clients go through the broker: as they ask, always, or never. */
    relay: RelayPreference.default('auto'),
    /** A unix socket in the place of host and port, for an agent that only brokers of this machine reach [4-153]. */
    dataplaneListen: z
      .string()
      .regex(/^unix:\/./, 'must be unix: and an absolute path, as in unix:/run/boxoffice/agent.sock')
      .optional(),
    /** What brokers reach the dataplane by, to relay; default: what clients reach it by. */
    dataplaneUrl: z.url({ protocol: /^(?:https?|unix)$/, error: 'must be an http://, https:// or unix: URL' }).optional(),
    provider: z.enum(['auto', ...(Object.keys(PROVIDERS) as ProviderName[])]).default('auto'),
    isolation: z.enum(['auto', 'bubblewrap', 'none']).default('auto'),
    /** Allows isolation `none` behind a listener that others can reach. */
    allowUnsafeLocal: z.boolean().default(false),
    /** With isolation `none`: sandboxes run as the agent's own user also where that is root. */
    sameUser: z.boolean().default(false),
    /** As in the environment variable DOCKER_HOST. */
    dockerHost: z.string().min(1).optional(),
    defaultImage: z.string().min(1).default('boxoffice/sandbox:latest'),
    /** The supervisor's binary; default: the one that ships with the agent. */
    supervisorPath: z.string().optional(),
    /** Below which host paths may be mounted into sandboxes; none: nowhere [2-113]. */
    allowedHostMountRoots: z.array(z.string().refine(isAbsolute, 'must be absolute paths')).default([]),
    /** The workspace of sandboxes for which none is named. All of them see it. */
    defaultHostWorkspace: z.string().refine(isAbsolute, 'must be an absolute path').optional(),
    /** Host paths that are never mounted, beside those that never are. */
    blockedHostPaths: z.array(z.string().refine(isAbsolute, 'must be absolute paths')).default([]),
    poolConcurrency: z.number().int().min(1).max(32).default(2),
    /** What of the machine new sandboxes leave to those that are there; each has a default by the size of the machine [C-45]. */
    reserve: z
      .strictObject({
        descriptors: z.number().int().min(0).optional(),
        pids: z.number().int().min(0).optional(),
        memoryMb: z.number().int().min(0).optional(),
      })
      .prefault({}),
    /** Web origins that may call the dataplane [C-69]. */
    corsOrigins: z.array(z.string()).default([]),
    /** Addresses behind which are many clients: brokers and reverse proxies. */
    trustedProxies: z.array(z.string()).default([]),
    /** Of each listener. */
    maxConnections: z.number().int().min(16).default(8192),
    /** Token buckets by who a token is for; each is off unless it is set [C-58]. */
    dataplaneRates: z
      .strictObject({
        execPerPrincipal: Rate.optional(),
        execPerTenant: Rate.optional(),
        wsOpenPerPrincipal: Rate.optional(),
        wsOpenPerTenant: Rate.optional(),
      })
      .prefault({}),
    destroyOnExit: z.boolean().default(false),
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
  .refine(({ controlListen, tlsCert, insecureNetwork }) => isLoopback(hostOf(controlListen)) || tlsCert !== undefined || insecureNetwork, {
    path: ['controlListen'],
    error: 'an address that others can reach needs --tls-cert and --tls-key, or --insecure-network on a private network',
  })
export type AgentConfig = z.output<typeof AgentConfig>

export const hostOf = (address: string): string => address.slice(0, address.lastIndexOf(':')).replace(/^\[|\]$/g, '')
export const portOf = (address: string): number => Number(address.slice(address.lastIndexOf(':') + 1))

export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)

/** Whether only this machine can reach what listens there and is known by that URL. */
export const isLocal = (host: string, publicUrl: string | undefined): boolean =>
  isLoopback(host) && (publicUrl === undefined || isLoopback(new URL(publicUrl).hostname))
