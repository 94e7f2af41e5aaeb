import { BoxofficeError } from '@boxoffice/protocol'
import type { SandboxHandle } from '../../sandbox/provider.ts'
import { LABEL, type PodManifest } from './pod.ts'

type ContainerState = {
  waiting?: { reason?: string; message?: string }
  terminated?: { reason?: string; exitCode?: number }
}

/** A pod as the API server tells of it; what is read here. */
export type Pod = PodManifest & {
  metadata: { uid: string; resourceVersion: string; deletionTimestamp?: string }
  status?: {
    phase?: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown'
    reason?: string
    message?: string
    conditions?: { type: string; status: string; reason?: string; message?: string }[]
    initContainerStatuses?: { state?: ContainerState }[]
    containerStatuses?: { state?: ContainerState }[]
  }
}

/** The sandbox of a pod, as far as the API server knows; whether it is frozen says the kernel. */
export const handleOf = (pod: Pod): SandboxHandle => {
  const { labels, name } = pod.metadata
  const known = { id: labels[LABEL.sandbox] ?? '', engineId: name, profileHash: labels[LABEL.profileHash] ?? '' }
  const lost = (more: Partial<SandboxHandle> = {}): SandboxHandle => ({ ...known, state: 'lost', ...more })
  const { phase } = pod.status ?? {}
  const wasDisrupted = conditionOf(pod, 'DisruptionTarget') !== undefined
  if (wasDisrupted) return lost({ lostReason: 'node_drained' })
  if (pod.metadata.deletionTimestamp !== undefined) return lost()
  const oomKilled = statesOf(pod).some(({ terminated }) => terminated?.reason === 'OOMKilled')
  if (oomKilled) return lost({ oomKilled })
  const startError = startErrorOf(pod)
  if (startError !== undefined) return lost({ startError })
  if (phase === 'Running') return { ...known, state: mainState(pod)?.terminated === undefined ? 'running' : 'lost' }
  return phase === 'Pending' || phase === undefined ? { ...known, state: 'starting' } : lost()
}

/** The node was drained, the pod was preempted, or its kubelet shut down: Kubernetes' own word for all of these. */
const conditionOf = ({ status }: Pod, name: string, is = 'True') =>
  status?.conditions?.find(({ type, status: value }) => type === name && value === is)

const statesOf = ({ status }: Pod): ContainerState[] =>
  [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])].flatMap(({ state }) => state ?? [])

const mainState = ({ status }: Pod): ContainerState | undefined => status?.containerStatuses?.[0]?.state

const IMAGE_REASONS = /^(ErrImage|ImagePull|ImageInspect|InvalidImage|RegistryUnavailable|SignatureValidation)/
const START_REASONS = /^(CreateContainer|RunContainer|StartError|PreStartHook|PostStartHook)/

/** What waiting does not mend. What the cluster says may name paths and addresses, so callers get words of our own. */
const startErrorOf = (pod: Pod): BoxofficeError | undefined => {
  const failure = (message: string): BoxofficeError => new BoxofficeError('BACKEND_UNAVAILABLE', message)
  const full = (why: string): BoxofficeError =>
    new BoxofficeError('AGENT_FULL', `the node of this agent has no room for another sandbox: ${why}; release some, or add a node`, {
      retryAfter: 5,
    })
  if (conditionOf(pod, 'PodScheduled', 'False')?.reason === 'Unschedulable') return full('the scheduler does not place it there')
  const { phase, reason } = pod.status ?? {}
  if (phase === 'Failed' && reason?.startsWith('OutOf')) return full(`${reason} says its kubelet`)
  for (const { waiting, terminated } of statesOf(pod)) {
    const why = waiting?.reason ?? terminated?.reason ?? ''
    if (IMAGE_REASONS.test(why))
      return failure(
        `image "${imageOf(pod)}" is not on the node and cannot be pulled (${why}); pull or build it there (deploy/images/sandbox/Dockerfile makes boxoffice/sandbox), or set another image`,
      )
    if (START_REASONS.test(why) || why === 'StartError')
      return failure(`the node could not start the sandbox (${why}); its events say more`)
  }
  const prepared = pod.status?.initContainerStatuses?.[0]?.state?.terminated
  if (prepared !== undefined && prepared.exitCode !== 0)
    return failure('the network could not be taken from the sandbox, so it was not started')
  return undefined
}

const imageOf = ({ spec }: Pod): string => (spec.containers as { image?: string }[] | undefined)?.[0]?.image ?? ''
