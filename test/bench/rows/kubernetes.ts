import { type KubernetesApi, kubernetesApi } from '../../../apps/agent/src/providers/kubernetes/api.ts'
import { makeClosedDirectory } from '../../../apps/agent/src/providers/kubernetes/candidates.ts'
import { kubernetesProvider } from '../../../apps/agent/src/providers/kubernetes/kubernetes.ts'
import { openPodGroups } from '../../../apps/agent/src/providers/kubernetes/pod-groups.ts'
import { NODE } from '../../../apps/agent/test/conformance/provider/cluster/cluster.ts'
import { Host, silent } from '../../../apps/agent/test/host/support/host.ts'
import { useKubernetes } from '../../e2e/support/places/kubernetes.ts'
import { API_KEY, type Stack, startStack } from '../../e2e/support/stack.ts'
import { useCluster } from '../cluster.ts'
import { brokerClient, execOnce, httpClient } from '../http.ts'
import { until } from '../pool.ts'
import { inTurn, median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round, type StackAddress } from './row.ts'

export const needs: Needs = { docker: [], cluster: true }

const POOL_SIZE = 6
const PROFILES = [
  { name: 'pooled', pool_size: POOL_SIZE, memory_mb: 500 },
  { name: 'networked', network: 'on' },
]
const CLAIMS = 5
const COLD = 3
const EXECS = 200
const FREEZES = 30
const BODY = '{"argv":["/bin/true"]}'

type Kubernetes = Awaited<ReturnType<typeof useKubernetes>>
let threads = 0

/** Sandboxes as pods of the one-node cluster; the stack has SQLite, as those of the other rows. */
export async function* run({ docker, image }: RowContext): AsyncIterable<Row> {
  await using parts = new AsyncDisposableStack()
  parts.use(await useCluster())
  const kubernetes = parts.use(await useKubernetes())
  yield await freezes(kubernetes)
  const stack = parts.use(await startStack({ provider: 'kubernetes', database: 'sqlite', config: { profiles: PROFILES } }))
  yield await warm(stack)
  yield await cold(stack, kubernetes, image)
  yield await execs(stack, docker)
}

/** A new thread takes a sandbox of the warm pool. */
async function warm(stack: Stack): Promise<Row> {
  const broker = brokerClient(stack.brokerUrl, API_KEY)
  const client = httpClient()
  const metrics = `${stack.agent().ready.agent_url}/metrics`
  const isFull = async (): Promise<boolean> =>
    (await client.send('GET', metrics, {})).body.includes(`boxoffice_agent_pool_ready{profile="pooled"} ${POOL_SIZE}`)
  const block = async (): Promise<number[]> => {
    await until(isFull)
    const grants: string[] = []
    const times = await timeEach(CLAIMS, async () => {
      grants.push((await broker.ensure(`bench-warm-${threads++}`, 'pooled')).session_id)
    })
    for (const id of grants) await broker.release(id)
    return times
  }
  await block()
  const times: number[] = []
  for (let i = 0; i < 4; i++) times.push(...(await block()))
  const p50 = median(times)
  client.close()
  broker.close()
  return {
    row: 'ensure of a new thread, warm pool, kubernetes, p50',
    measured: `${round(p50)} ms`,
    comparison: `${times.length} claims; the slowest ${round(Math.max(...times))} ms`,
    must: '≤ 25 ms',
    stretch: '',
    passed: p50 <= 25,
    figures: { p50 },
  }
}

/** A new thread without a pool, until its first command could run, against a pod like it, until the kubelet says that it runs. */
async function cold(stack: Stack, { access, namespace }: Kubernetes, image: string): Promise<Row> {
  const broker = brokerClient(stack.brokerUrl, API_KEY)
  const api = kubernetesApi(access)
  const ensured: string[] = []
  const ours = async (): Promise<number> =>
    median(
      await timeEach(COLD, async () => {
        ensured.push((await broker.ensure(`bench-cold-${threads++}`, 'networked')).session_id)
      }),
    )
  const made: string[] = []
  const theirs = async (): Promise<number> =>
    median(
      await timeEach(COLD, async () => {
        made.push(await runPod(api, namespace, image))
      }),
    )
  const { ours: p50, theirs: other, ratio } = await inTurn(ours, theirs)
  for (const id of ensured) await broker.release(id)
  for (const name of made) await api.call('DELETE', `/api/v1/namespaces/${namespace}/pods/${name}`)
  api.close()
  broker.close()
  return {
    row: 'ensure of a new thread, no pool, network on, kubernetes, p50',
    measured: `${round(p50, 0)} ms = ${round(ratio)} ×`,
    comparison: `a pod like it by the API, until Running ${round(other, 0)} ms`,
    must: '≤ 1.1 ×',
    stretch: '',
    passed: ratio <= 1.1,
    figures: { ours: p50, theirs: other, ratio },
  }
}

/** What `kubectl run` does, without the time that the program kubectl takes. Gives the name of the pod. */
async function runPod(api: KubernetesApi, namespace: string, image: string): Promise<string> {
  const pods = `/api/v1/namespaces/${namespace}/pods`
  const name = `bench-${threads++}`
  const container = {
    ...{ name: 'sandbox', image, imagePullPolicy: 'IfNotPresent', command: ['sleep', 'infinity'] },
    resources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { cpu: '1', memory: '512Mi' } },
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] }, readOnlyRootFilesystem: true },
  }
  const spec = {
    ...{ restartPolicy: 'Never', automountServiceAccountToken: false, enableServiceLinks: false, terminationGracePeriodSeconds: 1 },
    securityContext: { runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [container],
  }
  type Pod = { metadata: { resourceVersion: string }; status?: { phase?: string } }
  const { metadata } = (await api.call('POST', pods, { apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec })) as Pod
  const query = `watch=1&fieldSelector=metadata.name=${name}&resourceVersion=${metadata.resourceVersion}`
  const ending = new AbortController()
  for await (const { object } of api.watch(`${pods}?${query}`, ending.signal)) if ((object as Pod).status?.phase === 'Running') break
  ending.abort()
  return name
}

async function execs(stack: Stack, docker: StackAddress): Promise<Row> {
  const client = httpClient()
  const p50Of = async ({ brokerUrl, apiKey }: Pick<StackAddress, 'brokerUrl' | 'apiKey'>): Promise<() => Promise<number>> => {
    const broker = brokerClient(brokerUrl, apiKey)
    const grant = await broker.ensure('bench-exec')
    broker.close()
    const block = async () => median(await timeEach(EXECS, () => execOnce(client, grant, BODY)))
    await block()
    return block
  }
  const ours = await p50Of({ brokerUrl: stack.brokerUrl, apiKey: API_KEY })
  const theirs = await p50Of(docker)
  const compared = await inTurn(ours, theirs)
  client.close()
  return {
    row: 'POST /exec /bin/true, kubernetes, p50',
    measured: `${round(compared.ours)} ms = ${round(compared.ratio)} ×`,
    comparison: `docker ${round(compared.theirs)} ms`,
    must: '≤ 1.2 ×',
    stretch: '',
    passed: compared.ratio <= 1.2,
    figures: { ...compared },
  }
}

/** The agent's own part of it, without the broker's decision and a request. */
async function freezes({ access, namespace }: Kubernetes): Promise<Row> {
  await using host = await Host.start(async ({ path, installId }) => {
    await makeClosedDirectory(path)
    const node = { api: kubernetesApi(access), namespace, node: NODE, installId, groups: openPodGroups() }
    return kubernetesProvider({ ...node, imagePullPolicy: 'IfNotPresent', runtimeClasses: [], log: silent })
  })
  const { id } = await host.ensure('bench-freeze')
  const cycle = async (): Promise<void> => {
    await host.manager.suspend(id, 'freeze')
    await host.find(id).ready(AbortSignal.timeout(60_000))
  }
  await timeEach(5, cycle)
  const p50 = median(await timeEach(FREEZES, cycle))
  return {
    row: 'freeze and wake of a pod, p50 of both',
    measured: `${round(p50)} ms`,
    comparison: `${FREEZES} freezes`,
    must: '≤ 15 ms',
    stretch: '',
    passed: p50 <= 15,
    figures: { p50 },
  }
}
