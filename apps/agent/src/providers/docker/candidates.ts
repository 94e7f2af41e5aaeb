import { existsSync } from 'node:fs'
import type Docker from 'dockerode'
import type { Logger } from 'pino'
import type { Candidate, ProviderCapabilities } from '../../sandbox/provider.ts'
import type { Maker } from './create-options.ts'
import { dockerProvider } from './docker.ts'
import { inTime, messageOf, reasonOf, statusOf } from './engine-error.ts'

export type DockerCandidateOptions = Maker & {
  /** As in DOCKER_HOST; the environment's when it is undefined. */
  dockerHost: string | undefined
  log: Logger
}

/** Engines to try: the named one alone, else every socket in its usual place. */
export const dockerCandidates = (options: DockerCandidateOptions): Candidate[] => {
  const named = options.dockerHost ?? process.env.DOCKER_HOST
  if (named !== undefined && named !== '')
    return [candidate(`engine of ${options.dockerHost === undefined ? 'DOCKER_HOST' : '--docker-host'}`, named, options)]
  return usualSockets().map((path) => candidate(path.includes('podman') ? 'Podman' : 'Docker', `unix://${path}`, options))
}

const usualSockets = (): string[] => {
  const runtime = process.env.XDG_RUNTIME_DIR
  return [...(runtime === undefined ? [] : [`${runtime}/podman/podman.sock`]), '/run/podman/podman.sock', '/var/run/docker.sock']
}

const candidate = (name: string, address: string, { installId, instanceId, log }: DockerCandidateOptions): Candidate => ({
  name,
  address,
  open: async () => {
    const docker = await engineAt(address)
    try {
      const info: EngineInfo = await inTime(docker.info())
      // An engine that is reached by a network has its directory on another machine.
      const engineDirectory = address.startsWith('unix:') ? info.DockerRootDir : undefined
      return dockerProvider({ docker, installId, instanceId, capabilities: capabilitiesOf(info), engineDirectory, log })
    } catch (error) {
      if (statusOf(error) === undefined) throw new Error(messageOf(error), { cause: error })
      log.warn({ err: error, engine: name }, 'an engine did not say what it can do')
      throw new Error(reasonOf(error), { cause: error })
    }
  },
})

const socketOf = (path: string): Docker.DockerOptions => {
  if (!existsSync(path)) throw new Error('no such socket; start it, or name another')
  return { socketPath: path }
}

const optionsFor = (host: string): Docker.DockerOptions => {
  if (!URL.canParse(host)) throw new Error('is not an address; use unix:///path, tcp://host:port or https://host:port')
  const url = new URL(host)
  if (url.protocol === 'unix:') return socketOf(url.pathname)
  return { protocol: url.protocol === 'https:' ? 'https' : 'http', host: url.hostname, port: url.port || 2375 }
}

/** Its library is a tenth of an agent's start, and loaded where there is an engine to speak to. */
const engineAt = async (host: string): Promise<Docker> => {
  const options = optionsFor(host)
  const { default: Engine } = await import('dockerode')
  return new Engine(options)
}

type EngineInfo = {
  DockerRootDir?: string
  MemoryLimit?: boolean
  PidsLimit?: boolean
  CpuCfsQuota?: boolean
  Runtimes?: Record<string, unknown>
}

const capabilitiesOf = (info: EngineInfo): ProviderCapabilities => {
  return {
    isolation: 'container',
    suspend: ['freeze', 'stop'],
    limits: [
      ...(info.CpuCfsQuota === false ? [] : (['cpus'] as const)),
      ...(info.MemoryLimit === false ? [] : (['memory_mb'] as const)),
      ...(info.PidsLimit === false ? [] : (['pids_limit'] as const)),
      'read_only_rootfs',
      'tmp_size',
    ],
    network: true,
    egress: true,
    extraMounts: true,
    ociRuntimes: Object.keys(info.Runtimes ?? {}),
    images: true,
  }
}
