import { backoffMs } from '@boxoffice/kit/backoff'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { deferred } from '@boxoffice/kit/deferred'
import { sleep } from '@boxoffice/kit/sleep'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import type { Logger } from 'pino'
import { ApiError, type KubernetesApi } from './api.ts'
import type { Pod } from './pod-state.ts'

export type PodWatchOptions = {
  api: KubernetesApi
  /** Path of the pods' collection. */
  path: string
  labelSelector: string
  /** A pod is new, or is otherwise than before. */
  onChange?: (pod: Pod) => void
  log: Logger
}

/** The pods of one agent, kept up to date by one watch; asking about one takes no call. */
export interface PodWatch {
  /** Throws what keeps the pods from being listed; returns when they have been. */
  ready(): Promise<void>
  /** Whether the watch runs. Where it does not, what is kept may be older than what is. */
  readonly isCurrent: boolean
  get(name: string): Pod | undefined
  all(): Pod[]
  /** The last that was known of a pod that is not there any more, if we have not asked for its end. */
  ended(name: string): Pod | undefined
  /** Takes what a call answered, before the watch tells of it. */
  put(pod: Pod): void
  /** Forgets how one of that name has ended. */
  forgetEnd(name: string): void
  /** Forgets it, and how it ended. */
  forget(name: string): void
  /** Resolves when it is not there; asks itself where the watch does not tell. */
  gone(name: string): Promise<void>
  close(): Promise<void>
}

const GONE = 410
/** The server ends a watch by itself after this, and a new one goes on where it was. */
const WATCH_SECONDS = 300
const ASK_MS = 1000
const BACKOFF = { firstMs: 100, mostMs: 5000 }
const ENDED_PODS = 1000

export const createPodWatch = ({ api, path, labelSelector, onChange = () => {}, log }: PodWatchOptions): PodWatch => {
  const selector = `labelSelector=${encodeURIComponent(labelSelector)}`
  const pods = new Map<string, Pod>()
  const ended = new BoundedCache<string, Pod>(ENDED_PODS)
  const waiting = new Map<string, Set<() => void>>()
  const closing = new AbortController()
  let listed = deferred<void>()
  listed.promise.catch(() => {})
  let isCurrent = false
  let hasListed = false

  const set = (pod: Pod): void => {
    pods.set(pod.metadata.name, pod)
    onChange(pod)
  }
  const remove = (name: string, last = pods.get(name)): void => {
    // A pod that is not in the watch has ended before: `ended` has it, or its end has been taken from there.
    if (pods.delete(name) && last !== undefined) ended.set(name, last)
    for (const wake of waiting.get(name) ?? []) wake()
  }

  /** Lists them all. Returns the version that a watch goes on from. */
  const list = async (): Promise<string> => {
    const { items, metadata } = (await api.call('GET', `${path}?${selector}`, undefined, closing.signal)) as {
      items: Pod[]
      metadata: { resourceVersion: string }
    }
    const names = new Set(items.map(({ metadata: { name } }) => name))
    for (const name of [...pods.keys()]) if (!names.has(name)) remove(name)
    for (const pod of items) set(pod)
    hasListed = true
    listed.resolve()
    return metadata.resourceVersion
  }

  /** Follows one watch to its end. Returns the version that the next one goes on from; undefined where they have to be listed again. */
  const follow = async (from: string): Promise<string | undefined> => {
    let version = from
    const query = `watch=1&allowWatchBookmarks=true&timeoutSeconds=${WATCH_SECONDS}&resourceVersion=${version}`
    try {
      isCurrent = true
      for await (const { type, object } of api.watch(`${path}?${selector}&${query}`, closing.signal)) {
        if (type === 'ERROR') {
          const { code } = object as { code?: number }
          if (code === GONE) return undefined
          throw new Error(`the watch ended with ${code}`)
        }
        const pod = object as Pod
        version = pod.metadata.resourceVersion
        if (type === 'DELETED') remove(pod.metadata.name, pod)
        else if (type !== 'BOOKMARK') set(pod)
      }
      return version
    } catch (error) {
      if (error instanceof ApiError && error.status === GONE) return undefined
      throw error
    } finally {
      isCurrent = false
    }
  }

  const run = async (): Promise<void> => {
    let version: string | undefined
    for (let failures = 0; !closing.signal.aborted; ) {
      try {
        version ??= await list()
        failures = 0
        version = await follow(version)
      } catch (error) {
        if (closing.signal.aborted) return
        // What was missed meanwhile may be forgotten by the server, too: the pods are listed again.
        version = undefined
        failures++
        log.debug({ err: error }, 'the watch over the pods broke; it begins again')
        if (!hasListed) {
          listed.reject(error)
          listed = deferred()
          listed.promise.catch(() => {})
        }
        await sleep(backoffMs(failures, BACKOFF), closing.signal).catch(() => {})
      }
    }
  }
  const running = run()

  return {
    ready: () => listed.promise,
    get isCurrent() {
      return isCurrent
    },
    get: (name) => pods.get(name),
    all: () => [...pods.values()],
    ended: (name) => ended.get(name),
    put(pod) {
      const { name, uid } = pod.metadata
      // The watch may have told more of it already, its end included.
      if (pods.get(name)?.metadata.uid !== uid && ended.get(name)?.metadata.uid !== uid) set(pod)
    },
    forgetEnd: (name) => void ended.delete(name),
    forget(name) {
      remove(name)
      ended.delete(name)
    },
    async gone(name) {
      while (pods.has(name)) {
        const { promise, resolve } = deferred<void>()
        const wakes = waiting.get(name) ?? new Set()
        waiting.set(name, wakes.add(resolve))
        await withTimeout(promise, ASK_MS, () => undefined)
        wakes.delete(resolve)
        if (wakes.size === 0) waiting.delete(name)
        if (!pods.has(name)) return
        const there = await api.call('GET', `${path}/${name}`).catch((error: unknown) => {
          if (error instanceof ApiError && error.status === 404) return undefined
          throw error
        })
        if (there === undefined) remove(name)
      }
    },
    async close() {
      closing.abort()
      listed.reject(new Error('the provider is closed'))
      await running
    },
  }
}
