import type { Logger } from 'pino'
import { dockerCandidates } from './docker/candidates.ts'
import { createLocalProvider } from './local/local.ts'
import type { Candidate } from './slot.ts'

export type CandidateOptions = {
  provider: 'auto' | 'docker' | 'local'
  isolation: 'auto' | 'bubblewrap' | 'none'
  sameUser: boolean
  /** Why isolation `none` may not be used here, or null when it may. */
  unsafeRefused: string | null
  dockerHost: string | undefined
  dataDirectory: string
  installId: string
  instanceId: string
  defaultImage: string
  log: Logger
}

/** What to try, in order [2-32]: DOCKER_HOST, a Podman socket, the Docker socket, then what needs no engine. */
export const providerCandidates = (options: CandidateOptions): Candidate[] => [
  ...(options.provider === 'local' ? [] : dockerCandidates(options)),
  ...(options.provider === 'docker' ? [] : [localCandidate(options)]),
]

const localCandidate = ({ unsafeRefused, ...options }: CandidateOptions): Candidate => ({
  name: 'local',
  async open() {
    if (options.isolation === 'none' && unsafeRefused !== null) throw new Error(unsafeRefused)
    const provider = await createLocalProvider(options)
    if (provider.capabilities.isolation !== 'none' || unsafeRefused === null) return provider
    await provider.close()
    throw new Error(unsafeRefused)
  },
})
