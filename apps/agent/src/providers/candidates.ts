import type { Logger } from 'pino'
import type { Candidate, Provider } from '../sandbox/provider.ts'
import { dockerCandidates } from './docker/candidates.ts'
import { type KubernetesSettings, kubernetesCandidates } from './kubernetes/candidates.ts'
import { createLocalProvider } from './local/local.ts'

export type CandidateOptions = {
  /** The name of a registered provider, or `auto`: all of them. */
  provider: string
  isolation: 'auto' | 'bubblewrap' | 'none'
  sameUser: boolean
  /** Why isolation `none` may not be used here, or null when it may. */
  unsafeRefused: string | null
  dockerHost: string | undefined
  kubernetes: KubernetesSettings
  dataDirectory: string
  installId: string
  instanceId: string
  defaultImage: string
  log: Logger
}

/** Where a provider is looked for: a candidate for each place, in order. */
export type Registration = (options: CandidateOptions) => Candidate[]

/** Every provider there is, in the order of `auto` [2-32]. A new one is one more line [2-33]. */
export const PROVIDERS = {
  kubernetes: kubernetesCandidates,
  docker: dockerCandidates,
  local: (options) => [localCandidate(options)],
} satisfies Record<string, Registration>
export type ProviderName = keyof typeof PROVIDERS

/** What to try, in order: with `auto` the cluster that the agent is a pod of, DOCKER_HOST, a Podman socket, the Docker socket, then what needs no engine. */
export const providerCandidates = (
  options: CandidateOptions,
  registered: Readonly<Record<string, Registration>> = PROVIDERS,
): Candidate[] =>
  Object.entries(registered)
    .filter(([name]) => options.provider === 'auto' || options.provider === name)
    .flatMap(([, candidates]) => candidates(options))
    .map((candidate) => ({ ...candidate, open: () => openSafe(candidate, options) }))

/** Whichever provider it is: one without isolation serves nobody but this machine, unless it is allowed to. */
const openSafe = async (candidate: Candidate, { unsafeRefused }: CandidateOptions): Promise<Provider> => {
  const provider = await candidate.open()
  if (provider.capabilities.isolation !== 'none' || unsafeRefused === null) return provider
  await provider.close()
  throw new Error(unsafeRefused)
}

const localCandidate = (options: CandidateOptions): Candidate => ({ name: 'local', open: () => createLocalProvider(options) })
