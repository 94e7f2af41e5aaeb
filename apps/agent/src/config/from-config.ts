import { homedir } from 'node:os'
import { isLoopback } from '@boxoffice/kit/is-loopback'
import { parseListenAddress } from '@boxoffice/kit/listen-address'
import { nodeInstallId } from '@boxoffice/node-http'
import type { Logger } from 'pino'
import { type Capacity, createCapacity } from '../capacity/capacity.ts'
import { openMachine } from '../capacity/machine.ts'
import type { ClientSettingsOptions } from '../egress/mirrors/client-settings.ts'
import { readHostAuthorities } from '../egress/mirrors/host-authorities.ts'
import { type HostMirror, readHostMirrors } from '../egress/mirrors/host-mirrors.ts'
import { type Upstream, upstreamFrom } from '../egress/proxy/upstream-from.ts'
import { systemAuthorities } from '../egress/tls/open-tls.ts'
import type { DiskFloor } from '../host/disk-floor.ts'
import { createMountPolicy, type MountPolicy } from '../mounts/policy.ts'
import { providerCandidates } from '../providers/candidates.ts'
import type { Candidate } from '../sandbox/provider.ts'
import { type AgentConfig, isLocal } from './config.ts'

type Where = Pick<Parameters<typeof providerCandidates>[0], 'dataDirectory' | 'installId' | 'instanceId' | 'log'>

/** The providers to try, in order. `exposed`: a part of the same process listens where others can reach it. */
export const candidatesFrom = (config: AgentConfig, exposed: boolean, where: Where): readonly Candidate[] => {
  const { provider, isolation, sameUser, dockerHost, kubernetes, defaultImage } = config
  return providerCandidates({
    provider,
    isolation,
    sameUser,
    unsafeRefused: unsafeRefused(config, exposed),
    dockerHost,
    kubernetes,
    defaultImage,
    ...where,
  })
}

/** Of an agent that its cluster says is that of a node; undefined: its data directory's. */
export const installIdFrom = ({ kubernetes: { enrollTokenFile, nodeName } }: AgentConfig): string | undefined =>
  enrollTokenFile === undefined || nodeName === undefined ? undefined : nodeInstallId(nodeName)

const THIS_MACHINE: ClientSettingsOptions = { env: process.env, home: homedir(), execPath: process.execPath }

/** The package mirrors of this machine, for sandboxes. */
export const mirrorsFrom = ({ hostMirrors }: AgentConfig, log: Logger): HostMirror[] => {
  if (!hostMirrors) return []
  const onLeftOut = (client: string, why: string): void =>
    log.warn({ client }, `sandboxes are not told of the mirror of a package client: ${why}`)
  return readHostMirrors({ ...THIS_MACHINE, onLeftOut })
}

/**
 * The authorities that the package clients of this machine are told to trust, beside its own. Read when they are first asked for: it takes
 * 80 ms, and an agent without egress needs none.
 */
export const authoritiesFrom = ({ hostMirrors }: AgentConfig, log: Logger): (() => readonly string[]) => {
  let found: readonly string[] | undefined = hostMirrors ? undefined : []
  const onLeftOut = (file: string): void =>
    log.warn({ file }, 'a file of authorities of a package client cannot be read, or has something else')
  return () => {
    found ??= readHostAuthorities({ ...THIS_MACHINE, known: systemAuthorities(), onLeftOut })
    return found
  }
}

/** The proxy that this machine has to go through itself. */
export const agentProxyFrom = ({ egressProxy }: AgentConfig, log: Logger): Upstream | undefined => {
  const upstream = upstreamFrom(egressProxy, () =>
    log.warn('HTTPS_PROXY is no http: or https: URL; what leaves sandboxes does not go through it'),
  )
  if (upstream !== undefined)
    log.info('what leaves sandboxes goes through the proxy of this machine, which resolves names: their addresses are not checked')
  return upstream
}

/** The room for sandboxes: of the machine, less what they leave free, and up to their number. `count`: of those that there are. */
export const capacityFrom = ({ reserve, maxSandboxes }: AgentConfig, disk: DiskFloor, count: () => number): Capacity => {
  const { memoryMb, ...counts } = reserve
  const memory = memoryMb === undefined ? undefined : memoryMb * 1024 ** 2
  return createCapacity({ machine: openMachine(), disk, reserve: { ...counts, memory }, sandboxes: { most: maxSandboxes, count } })
}

/** Which paths of the host may be mounted; the agent's own, the engine's socket and the kubeconfig never. */
export const mountPolicyFrom = (config: AgentConfig, dataDirectory: string): Promise<MountPolicy> =>
  createMountPolicy({
    allowedRoots: config.allowedHostMountRoots,
    blocked: [
      dataDirectory,
      ...config.blockedHostPaths,
      ...socketOf(config.dockerHost ?? process.env.DOCKER_HOST),
      ...kubeconfigOf(config),
    ],
  })

const socketOf = (dockerHost: string | undefined): string[] =>
  dockerHost?.startsWith('unix://') ? [dockerHost.slice('unix://'.length)] : []

const kubeconfigOf = ({ kubernetes: { kubeconfig } }: AgentConfig): string[] => (kubeconfig === undefined ? [] : [kubeconfig])

const unsafeRefused = ({ host, controlListen, publicUrl, allowUnsafeLocal }: AgentConfig, exposed: boolean): string | null => {
  const local = isLocal(host, publicUrl) && isLoopback(parseListenAddress(controlListen).host) && !exposed
  if (allowUnsafeLocal || local) return null
  return 'isolation "none" is refused for a listener that others can reach; install bubblewrap, or allow it with --allow-unsafe-local'
}
