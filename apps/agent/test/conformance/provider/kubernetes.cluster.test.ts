import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { signalPid } from '../../../src/host/process-table.ts'
import { kubernetesApi } from '../../../src/providers/kubernetes/api.ts'
import { makeClosedDirectory } from '../../../src/providers/kubernetes/candidates.ts'
import { kubernetesProvider } from '../../../src/providers/kubernetes/kubernetes.ts'
import { podName } from '../../../src/providers/kubernetes/pod.ts'
import { openPodGroups } from '../../../src/providers/kubernetes/pod-groups.ts'
import type { LiveSandbox } from '../../../src/sandboxes/live/live-sandbox.ts'
import { run } from '../../host/support/exec.ts'
import { Host, type OpenProvider, silent } from '../../host/support/host.ts'
import { type ClusterNamespace, NODE, useNamespace } from './cluster/cluster.ts'
import { supervisorOf } from './cluster/supervisor-of.ts'
import { providerSuite } from './suite.ts'

const NAMESPACE = 'boxoffice-exam'
let namespace: ClusterNamespace
beforeAll(async () => {
  namespace = await useNamespace(NAMESPACE)
})
afterAll(() => namespace[Symbol.asyncDispose]())

const open: OpenProvider = async ({ path, installId }) => {
  await makeClosedDirectory(path)
  return kubernetesProvider({
    ...{ api: kubernetesApi(namespace.access), namespace: NAMESPACE, node: NODE, installId },
    ...{ imagePullPolicy: 'IfNotPresent', runtimeClasses: [], groups: openPodGroups(), log: silent },
  })
}

const podOf = async ({ id }: LiveSandbox) => JSON.parse(await namespace.kubectl(['get', 'pod', podName(id), '-o', 'json']))
const ofInstall = async (installId: string): Promise<string[]> =>
  (await namespace.kubectl(['get', 'pods,podtemplates', '-l', `boxoffice.dev/install=${installId}`, '-o', 'name']))
    .split('\n')
    .filter(Boolean)

describe('kubernetes provider', () => {
  providerSuite({
    kind: 'kubernetes',
    open,
    cycles: 6,
    accident: async (_host, { id }) => void (await namespace.kubectl(['delete', 'pod', podName(id), '--wait=false'])),
    remains: ({ installId }) => ofInstall(installId),
  })

  test('the pod has the hardening', async () => {
    await using host = await Host.start(open)
    const sandbox = await host.ensure('s1', { cpus: 0.5, memory_mb: 128, pids_limit: 77 })
    const { metadata, spec } = await podOf(sandbox)
    expect(metadata.labels).toMatchObject({
      ...{ 'boxoffice.dev/managed': 'true', 'boxoffice.dev/install': host.installId, 'boxoffice.dev/sandbox': sandbox.id },
      ...{ 'boxoffice.dev/profile-hash': sandbox.file.profile_hash, 'boxoffice.dev/network': 'off' },
    })
    expect(spec).toMatchObject({
      ...{ nodeName: NODE, automountServiceAccountToken: false, restartPolicy: 'Never' },
      securityContext: {
        runAsUser: sandbox.file.uid,
        runAsGroup: sandbox.file.gid,
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      },
    })
    for (const field of ['hostNetwork', 'hostPID', 'hostIPC']) expect(spec).not.toHaveProperty(field)
    const [container] = spec.containers
    expect(container).toMatchObject({
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] }, readOnlyRootFilesystem: true },
      resources: { limits: { cpu: '500m', memory: '128Mi' } },
      args: expect.arrayContaining(['--max-processes', '77']),
    })
    expect(
      container.volumeMounts.map(({ mountPath, readOnly = false }: { mountPath: string; readOnly?: boolean }) => [mountPath, readOnly]),
    ).toEqual([
      ['/workspace', false],
      ['/app', false],
      ['/.boxoffice/supervisor', true],
      ['/.boxoffice/link', true],
      ['/.boxoffice/closed', true],
      ['/tmp', false],
    ])
    for (const { hostPath } of spec.volumes.filter((volume: object) => 'hostPath' in volume)) {
      expect(hostPath).toMatchObject({
        type: 'Directory',
        path: expect.stringMatching(new RegExp(`^${host.dataDirectory}/(bin|workspaces|sandboxes)`)),
      })
    }
  })

  test('no file that the kubelet mounts can be written, nor entered what is closed', async () => {
    await using host = await Host.start(open)
    const sandbox = await host.ensure('s1')
    const points = (await run(sandbox, 'cut -d" " -f2 /proc/mounts')).stdout.split('\n')
    expect(points).toContain('/.boxoffice/closed/termination')
    for (const path of ['/.boxoffice/closed/termination', '/dev/termination-log', '/etc/hosts', '/etc/hostname', '/etc/resolv.conf'])
      expect((await run(sandbox, `(echo x >> ${path}) 2>/dev/null; echo $?`)).stdout).not.toBe('0\n')
    expect((await run(sandbox, 'ls /.boxoffice/closed')).code).not.toBe(0)
  })

  test('a profile with network keeps the device of the pod', async () => {
    await using host = await Host.start(open)
    const sandbox = await host.ensure('s1', { network: 'on' })
    expect((await run(sandbox, 'cat /proc/net/dev')).stdout).toContain('eth0:')
    expect((await podOf(sandbox)).spec).not.toHaveProperty('initContainers')
  })

  test('where nothing may have a socket of a network, the device stays, and nothing waits for its end', async () => {
    await using host = await Host.start(open)
    const sandbox = await host.ensure('s1', { network: 'none' })
    const pod = await podOf(sandbox)
    expect(pod.spec).not.toHaveProperty('initContainers')
    expect(pod.metadata.labels).toMatchObject({ 'boxoffice.dev/network': 'off' })
    expect((await run(sandbox, 'cat /proc/net/dev')).stdout).toContain('eth0:')
    expect((await run(sandbox, 'exec 3<>/dev/tcp/127.0.0.1/9')).stderr).toContain('not supported by protocol')
  })

  test('without a network a sandbox reaches itself', async () => {
    await using host = await Host.start(open)
    const sandbox = await host.ensure('s1')
    const ran = await run(
      sandbox,
      "python3 -c \"import socket; s=socket.create_server(('127.0.0.1', 0)); c=socket.create_connection(s.getsockname()); print('joined')\"",
    )
    expect(ran).toMatchObject({ stdout: 'joined\n' })
  })

  test('an image that is neither here nor to be had is named, with what to do, and leaves nothing', async () => {
    await using host = await Host.start(open)
    for (const image of ['registry.invalid/no/such:image', 'No Such Image', '../../etc/passwd', '$(HOSTNAME)']) {
      const ensured = host.ensure('s1', { image })
      await expect(ensured).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', message: expect.stringContaining(image) })
      await expect(ensured).rejects.toThrow(/pull or build/)
    }
    expect(await host.leftovers()).toEqual([])
    expect(await ofInstall(host.installId)).toEqual([])
  })

  test('what the API server does not take is refused, and leaves nothing', async () => {
    await using host = await Host.start(open)
    await expect(host.ensure('s1', { image: ' x ' })).rejects.toThrow(/does not take the pod \(.*spec\.initContainers\[0\]\.image/)
    expect(await host.leftovers()).toEqual([])
    expect(await ofInstall(host.installId)).toEqual([])
  })

  test('a sandbox for which the node has no room is refused as full', async () => {
    await using host = await Host.start(open)
    await namespace.kubectl(['cordon', NODE])
    onTestFinished(async () => void (await namespace.kubectl(['uncordon', NODE])))
    await expect(host.ensure('s1')).rejects.toMatchObject({ code: 'AGENT_FULL' })
    await namespace.kubectl(['uncordon', NODE])
    expect(await ofInstall(host.installId)).toEqual([])
  })

  test('one whose node is drained is lost with that reason, frozen or not', async () => {
    await using host = await Host.start(open)
    const sandboxes = [await host.ensure('s1'), await host.ensure('s2')]
    await host.manager.suspend(sandboxes[1]?.id ?? '', 'freeze')
    for (const { id } of sandboxes) {
      const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: podName(id), namespace: NAMESPACE } }
      const path = `/api/v1/namespaces/${NAMESPACE}/pods/${podName(id)}/eviction`
      await namespace.kubectl(['create', '--raw', path, '-f', '-'], JSON.stringify(eviction))
    }
    // A running agent looks every two seconds.
    await expect
      .poll(async () => {
        await host.manager.inventory.verifyAll()
        return sandboxes.map(({ lost }) => lost?.reason)
      })
      .toEqual(['node_drained', 'node_drained'])
  })

  test('one whose supervisor is killed is lost', async () => {
    await using host = await Host.start(open)
    const sandbox = await host.ensure('s1')
    signalPid(supervisorOf(sandbox.file.uid), 'SIGKILL')
    await expect
      .poll(async () => {
        await host.manager.inventory.verifyAll()
        return sandbox.state
      })
      .toBe('lost')
  })

  test('orphan cleanup safety: takes what nobody keeps and leaves what is foreign [2-29, 2-118, 2-131]', async () => {
    const before = await Host.start(open)
    const kept = await before.ensure('kept')
    const suffix = randomBytes(4).toString('hex')
    const make = async (name: string, labels: Record<string, string>): Promise<string> => {
      const metadata = { name: `test-${name}-${suffix}`, labels }
      const container = { name: 'c', image: 'boxoffice/sandbox:latest', imagePullPolicy: 'IfNotPresent', command: ['sleep', '1000'] }
      const spec = { restartPolicy: 'Never', terminationGracePeriodSeconds: 0, containers: [container] }
      await namespace.kubectl(['apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata, spec }))
      return `pod/${metadata.name}`
    }
    const managed = { 'boxoffice.dev/managed': 'true' }
    const orphan = await make('orphan', { ...managed, 'boxoffice.dev/install': before.installId, 'boxoffice.dev/sandbox': 'sb_gone' })
    const another = await make('another', { ...managed, 'boxoffice.dev/install': 'feedfeedfeedfeed', 'boxoffice.dev/sandbox': 'sb_x' })
    const foreign = await make('foreign', { 'example.com/owner': 'somebody' })
    await using host = await before.restart()
    await host.recovery.settle([{ sandbox_id: kept.id, action: 'keep' }])
    const there = (await namespace.kubectl(['get', 'pods', '-o', 'name'])).split('\n')
    expect([orphan, another, foreign].map((name) => there.includes(name))).toEqual([false, true, true])
    expect(host.manager.inventory.report(kept.id)).toMatchObject({ state: 'running' })
    await namespace.kubectl(['delete', another, foreign, '--wait=false'])
  })

  test('an agent that ended in the middle of a stop finds the sandbox stopped', async () => {
    const before = await Host.start(open)
    const sandbox = await before.ensure('s1')
    await run(sandbox, 'echo kept > note')
    await before.manager.suspend(sandbox.id, 'stop')
    await using host = await before.restart()
    expect(host.manager.inventory.report(sandbox.id)).toMatchObject({ state: 'stopped' })
    // The pod of a wake is there, and its template not removed yet.
    const template = await namespace.kubectl(['get', 'podtemplate', podName(sandbox.id), '-o', 'json'])
    await host.find(sandbox.id).ready(AbortSignal.timeout(60_000))
    const { metadata, ...rest } = JSON.parse(template)
    await namespace.kubectl(['create', '-f', '-'], JSON.stringify({ ...rest, metadata: { name: metadata.name, labels: metadata.labels } }))
    const listed = await Array.fromAsync(host.provider.sandboxes.list())
    expect(listed.map(({ id, state }) => [id, state])).toEqual([[sandbox.id, expect.stringMatching(/running|starting/)]])
  })
})
