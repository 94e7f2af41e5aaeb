import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { type KubernetesApi, kubernetesApi } from '../../../apps/agent/src/providers/kubernetes/api.ts'
import { LABEL } from '../../../apps/agent/src/providers/kubernetes/pod.ts'
import type { Pod } from '../../../apps/agent/src/providers/kubernetes/pod-state.ts'
import { createPodWatch } from '../../../apps/agent/src/providers/kubernetes/pod-watch.ts'
import { kubectl, useNamespace } from '../../../apps/agent/test/conformance/provider/cluster/cluster.ts'
import { placeholderPod } from '../../../apps/agent/test/conformance/provider/cluster/placeholder-pod.ts'
import { silent } from '../../../apps/agent/test/host/support/host.ts'
import { useCluster } from '../../bench/cluster.ts'
import { many } from '../../bench/many.ts'
import { median } from '../../bench/statistics.ts'
import { ROOT } from '../../e2e/support/program.ts'
import { type Part, print } from '../part.ts'

const WRITERS = 16
const REPEATS = 20
const MOST_MS = 100
const NODE = 'boxoffice-kwok'

/**
 * Many pods of many agents in the one-node cluster, on a node that is not there: kwok says that they run. False where the list and the
 * watch of one agent take longer than they may.
 * Options: `--pods 3000 --agents 30`.
 */
export const run: Part = async (options) => {
  const [pods, agents] = [Number(options.pods ?? 3000), Number(options.agents ?? 30)]
  await using parts = new AsyncDisposableStack()
  parts.use(await useCluster())
  parts.use(await startKwok())
  parts.use(await useNode(pods))
  const { access } = parts.use(await useNamespace(`boxoffice-scale-${randomBytes(4).toString('hex')}`))
  const api = kubernetesApi(access)
  parts.defer(() => api.close())
  const path = `/api/v1/namespaces/${access.namespace}/pods`
  const begun = performance.now()
  const installOf = (i: number): string => `install-${i % agents}`
  await many(pods, WRITERS, (i) => api.call('POST', path, placeholderPod(`sb_${i}`, { node: NODE, installId: installOf(i) })))
  await allRun(api, path, pods)
  print({ pods, agents, running_in_s: Math.round((performance.now() - begun) / 1000) })
  const times: number[] = []
  for (let i = 0; i < REPEATS; i++) times.push(await listAndWatch(api, path, installOf(i)))
  const p50 = median(times)
  print({
    row: `list and watch of one of ${agents} agents, ${pods} pods, p50`,
    measured: `${p50.toFixed(1)} ms`,
    slowest: `${Math.max(...times).toFixed(1)} ms`,
    must: `≤ ${MOST_MS} ms`,
    passed: p50 <= MOST_MS,
  })
  return p50 <= MOST_MS
}

/** How long an agent that starts takes until it has its pods, and its watch tells of the next one; milliseconds. */
const listAndWatch = async (api: KubernetesApi, path: string, installId: string): Promise<number> => {
  const begun = performance.now()
  const next = `sb_next-${randomBytes(4).toString('hex')}`
  const seen = Promise.withResolvers<void>()
  const watch = createPodWatch({
    ...{ api, path, labelSelector: `${LABEL.managed}=true,${LABEL.install}=${installId}`, log: silent },
    onChange: ({ metadata: { labels } }: Pod) => labels[LABEL.sandbox] === next && seen.resolve(),
  })
  await watch.ready()
  if (watch.all().length === 0) throw new Error('the list has no pods')
  await api.call('POST', path, placeholderPod(next, { node: NODE, installId }))
  await seen.promise
  const took = performance.now() - begun
  await watch.close()
  return took
}

const allRun = async (api: KubernetesApi, path: string, pods: number): Promise<void> => {
  for (;;) {
    const { items } = (await api.call('GET', `${path}?fieldSelector=status.phase%3DRunning`)) as { items: object[] }
    if (items.length >= pods) return
    await delay(1000)
  }
}

/** Ends with it. */
const startKwok = async (): Promise<AsyncDisposable> => {
  const child = spawn('sh', ['deploy/cluster/cluster.sh', 'kwok'], { cwd: ROOT, stdio: ['ignore', 2, 2] })
  const ended = once(child, 'exit')
  return {
    async [Symbol.asyncDispose]() {
      child.kill()
      await ended
    },
  }
}

/** A node with room for that many pods, which kwok looks after. */
const useNode = async (pods: number): Promise<AsyncDisposable> => {
  const room = { cpu: '1k', memory: '1Ti', pods: String(pods * 2) }
  const metadata = { name: NODE, annotations: { 'kwok.x-k8s.io/node': 'fake' }, labels: { type: 'kwok' } }
  await kubectl(
    ['apply', '-f', '-'],
    JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata, status: { capacity: room, allocatable: room } }),
  )
  await kubectl(['wait', '--for=condition=Ready', '--timeout=600s', `node/${NODE}`])
  return { [Symbol.asyncDispose]: async () => void (await kubectl(['delete', 'node', NODE])) }
}
