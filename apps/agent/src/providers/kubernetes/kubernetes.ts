import { withTimeout } from '@boxoffice/kit/with-timeout'
import { BoxofficeError } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { bindsOf, type Provider, type SandboxHandle, type SandboxSpec } from '../../sandbox/provider.ts'
import type { KubernetesApi } from './api.ts'
import { callFailed, isConflict, reasonOf, sandboxGone, unlessMissing } from './failures.ts'
import { LABEL, type PodManifest, type PodOptions, podName, podOf } from './pod.ts'
import type { PodGroups } from './pod-groups.ts'
import { handleOf, type Pod } from './pod-state.ts'
import { createPodWatch } from './pod-watch.ts'

export type KubernetesProviderOptions = PodOptions & {
  api: KubernetesApi
  namespace: string
  /** Undefined: pods are stopped, and not frozen. */
  groups: PodGroups | undefined
  runtimeClasses: readonly string[]
  log: Logger
}

/** A template of core/v1 that keeps the spec of a stopped sandbox. */
type Template = { metadata: PodManifest['metadata']; template: { spec: PodManifest['spec'] } }

const PROBE_MS = 3000
const TRIES = 3

/**
 * Sandboxes as pods of the agent's own node. A stopped one has no pod; a PodTemplate of the same name keeps what it is made of. Pods
 * are known by their names, since a sandbox that wakes from a stop is another pod.
 */
export const kubernetesProvider = (options: KubernetesProviderOptions): Provider => {
  const { api, namespace, installId, groups, runtimeClasses, log } = options
  const pods = `/api/v1/namespaces/${namespace}/pods`
  const templates = `/api/v1/namespaces/${namespace}/podtemplates`
  const ours = `${LABEL.managed}=true,${LABEL.install}=${installId}`

  /** Signals do not reach what is frozen, so a pod that somebody else deletes would never end. */
  const onChange = ({ metadata: { uid, deletionTimestamp } }: Pod): void => {
    if (deletionTimestamp === undefined || groups?.isFrozen(uid) !== true) return
    groups.thaw(uid).catch((err: unknown) => log.warn({ err }, 'a pod that is deleted could not be thawed'))
  }
  const watch = createPodWatch({ api, path: pods, labelSelector: ours, onChange, log })

  const seen = (pod: Pod): SandboxHandle => {
    const handle = handleOf(pod)
    return handle.state !== 'lost' && groups?.isFrozen(pod.metadata.uid) ? { ...handle, state: 'frozen' } : handle
  }
  const stopped = ({ metadata: { labels, name } }: Template): SandboxHandle => ({
    ...{ id: labels[LABEL.sandbox] ?? '', engineId: name, state: 'stopped' },
    profileHash: labels[LABEL.profileHash] ?? '',
  })
  const templateOf = async (name: string) => (await unlessMissing(api.call('GET', `${templates}/${name}`))) as Template | undefined
  const removeTemplate = (name: string) => unlessMissing(api.call('DELETE', `${templates}/${name}`))

  /** One that the watch has not told of yet is asked for. */
  const podNamed = async (name: string): Promise<Pod | undefined> => {
    const known = watch.get(name)
    if (known !== undefined) return known
    const found = (await unlessMissing(api.call('GET', `${pods}/${name}`))) as Pod | undefined
    if (found !== undefined) watch.put(found)
    return found
  }

  const removePod = async (name: string): Promise<void> => {
    const known = watch.get(name)
    if (known !== undefined) await groups?.thaw(known.metadata.uid)
    const deleted = (await unlessMissing(api.call('DELETE', `${pods}/${name}`))) as Pod | undefined
    if (deleted !== undefined) {
      watch.put(deleted)
      await watch.gone(name)
    }
    watch.forget(name)
    if (known !== undefined) groups?.forget(known.metadata.uid)
  }

  /** One of the same name is an earlier making of the sandbox that is on its way out, or what a call left that we gave up on. */
  const start = async (manifest: PodManifest): Promise<SandboxHandle> => {
    const { name } = manifest.metadata
    watch.forgetEnd(name)
    for (let tried = 1; ; tried++) {
      try {
        const made = (await api.call('POST', pods, manifest)) as Pod
        watch.put(made)
        return seen(made)
      } catch (error) {
        if (!isConflict(error) || tried === TRIES) throw error
        await removePod(name)
      }
    }
  }

  return {
    name: 'kubernetes',
    capabilities: {
      isolation: 'container',
      suspend: groups === undefined ? ['stop'] : ['freeze', 'stop'],
      limits: ['cpus', 'memory_mb', 'pids_limit', 'read_only_rootfs', 'tmp_size'],
      network: true,
      egress: true,
      extraMounts: true,
      ociRuntimes: runtimeClasses,
      images: true,
    },
    sandboxes: {
      async create(id, spec, signal) {
        assertMountable(spec)
        try {
          signal.throwIfAborted()
          // Not to be aborted: whether the pod is made would not be known then.
          const handle = await start(podOf(id, spec, options))
          signal.throwIfAborted()
          return handle
        } catch (error) {
          // Of a call that had no answer, too.
          await removePod(podName(id)).catch((err: unknown) =>
            log.warn({ err, sandbox_id: id }, 'a pod that failed to start could not be removed'),
          )
          throw signal.aborted ? signal.reason : callFailed('start the sandbox', error, log)
        }
      },
      async *list() {
        try {
          await watch.ready()
          const selector = `labelSelector=${encodeURIComponent(ours)}`
          const kept = ((await api.call('GET', `${templates}?${selector}`)) as { items: Template[] }).items
          const running = watch.isCurrent ? watch.all() : ((await api.call('GET', `${pods}?${selector}`)) as { items: Pod[] }).items
          const templated = new Set(kept.map(({ metadata: { name } }) => name))
          const live = new Set<string>()
          for (const pod of running) {
            const { name, deletionTimestamp } = pod.metadata
            // A stop writes the template, and then deletes the pod; a wake makes the pod, and then removes the template.
            if (deletionTimestamp !== undefined && templated.has(name)) continue
            live.add(name)
            yield seen(pod)
          }
          for (const template of kept) if (!live.has(template.metadata.name)) yield stopped(template)
        } catch (error) {
          throw callFailed('list the sandboxes', error, log)
        }
      },
      async inspect({ engineId: name }) {
        try {
          const pod = await podNamed(name)
          if (pod !== undefined && pod.metadata.deletionTimestamp === undefined) return seen(pod)
          const template = await templateOf(name)
          if (template !== undefined) return stopped(template)
          const last = pod ?? watch.ended(name)
          return last && { ...handleOf(last), state: 'lost' }
        } catch (error) {
          throw callFailed('inspect the sandbox', error, log)
        }
      },
      async suspend({ engineId: name }, mode) {
        try {
          const pod = await podNamed(name)
          // One that ended can be stopped: a wake that failed is undone so.
          if (pod === undefined || (mode === 'freeze' && handleOf(pod).state === 'lost')) throw sandboxGone()
          if (mode === 'freeze') {
            if (groups === undefined)
              throw new BoxofficeError('UNSUPPORTED', 'freeze: the agent may not write the control groups of this node')
            return await groups.freeze(pod.metadata.uid)
          }
          // What another stop left is of the same sandbox.
          await api.call('POST', templates, templateFrom(pod)).catch((error: unknown) => {
            if (!isConflict(error)) throw error
          })
          await removePod(name)
        } catch (error) {
          throw callFailed(`${mode} the sandbox`, error, log)
        }
      },
      async resume({ engineId: name }) {
        try {
          const pod = await podNamed(name)
          if (pod !== undefined && pod.metadata.deletionTimestamp === undefined) return await groups?.thaw(pod.metadata.uid)
          const template = await templateOf(name)
          if (template === undefined) throw sandboxGone()
          const { labels } = template.metadata
          await start({ metadata: { name, labels }, spec: template.template.spec })
          await removeTemplate(name)
        } catch (error) {
          throw callFailed('wake the sandbox', error, log)
        }
      },
      async destroy({ engineId: name }) {
        try {
          await Promise.all([removeTemplate(name), removePod(name)])
        } catch (error) {
          throw callFailed('remove the sandbox', error, log)
        }
      },
    },
    host: { workspacePath: () => '/workspace' },
    async probe() {
      try {
        const late = () => {
          throw new Error('it does not answer')
        }
        await withTimeout(watch.ready(), PROBE_MS, late)
        await api.call('GET', `${pods}?limit=1&labelSelector=${encodeURIComponent(ours)}`, undefined, AbortSignal.timeout(PROBE_MS))
        return { available: true }
      } catch (error) {
        log.debug({ err: error }, 'the Kubernetes API cannot be used')
        return { available: false, reason: `the Kubernetes API cannot be used: ${reasonOf(error)}` }
      }
    },
    async close() {
      await watch.close()
      api.close()
    },
  }
}

/** What the pod is made of again. `nodeName` is where it was; the affinity stays. */
const templateFrom = ({ metadata: { name, labels }, spec: { nodeName: _, ...spec } }: Pod): object => ({
  metadata: { name, labels },
  template: { metadata: { labels }, spec },
})

/** The API takes no colon in a path of a mount. */
const assertMountable = (spec: SandboxSpec): void => {
  const target = bindsOf(spec).find((bind) => bind.target.includes(':'))?.target
  if (target !== undefined)
    throw new BoxofficeError('UNSUPPORTED', `mounts: the kubernetes provider cannot mount at "${target}"; choose a path without a colon`)
}
