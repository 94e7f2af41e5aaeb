import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type KubernetesApi, kubernetesApi } from '../../apps/agent/src/providers/kubernetes/api.ts'
import { type PodManifest, podOf } from '../../apps/agent/src/providers/kubernetes/pod.ts'
import type { SandboxSpec } from '../../apps/agent/src/sandbox/provider.ts'
import { kubectl, NODE, useClusterApi } from '../../apps/agent/test/conformance/provider/cluster/cluster.ts'
import { eventually } from '../../apps/agent/test/support/eventually.ts'
import { nodeInstallId } from '../../packages/node-http/src/index.ts'
import { Profile } from '../../packages/protocol/src/index.ts'
import { render } from './helm.ts'
import { type Loose, podCases, templateOf } from './pod-cases.ts'

const SYSTEM = 'boxoffice-policy'
const SANDBOXES = 'boxoffice-policy-sandboxes'
const DIRECTORY = '/var/lib/boxoffice-policy/agent'
const AGENT = 'boxoffice-agent'
const VALUES = {
  namespaces: { createSystem: true, sandboxes: SANDBOXES },
  cluster: { issuer: 'https://kubernetes.default.svc' },
  agent: { dataDir: '/var/lib/boxoffice-policy', nodeSelector: { none: 'none' } },
  // Nothing starts: this is about what the API takes.
  broker: { nodeSelector: { none: 'none' } },
  sandboxes: { imagePullSecrets: ['registry'], runtimeClasses: ['kata'], hostMountRoots: ['/srv/shared'], quota: { pods: '500' } },
  ingress: { enabled: true, className: 'nginx', tlsSecret: 'tls' },
}
/** Each by itself, so that a refusal is that of the policy: RBAC would refuse some of it first. */
const WIDE = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  metadata: { name: 'everything', namespace: SANDBOXES },
} as const

let rendered: string
let agent: KubernetesApi
const parts = new AsyncDisposableStack()

beforeAll(async () => {
  rendered = await render(SYSTEM, VALUES)
  // A dry run looks for the namespaces.
  for (const namespace of [SYSTEM, SANDBOXES])
    await kubectl(['apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }))
  parts.defer(async () => {
    await kubectl(['delete', '-f', '-', '--wait', '--ignore-not-found'], rendered)
  })
  await kubectl(['apply', '--dry-run=server', '-f', '-'], rendered)
  await kubectl(['apply', '-f', '-'], rendered)
  const list = {
    apiVersion: 'v1',
    kind: 'List',
    items: [
      {
        ...WIDE,
        kind: 'Role',
        rules: [
          {
            apiGroups: [''],
            resources: ['pods', 'pods/exec', 'pods/attach', 'pods/ephemeralcontainers', 'pods/status', 'podtemplates'],
            verbs: ['*'],
          },
        ],
      },
      {
        ...{ ...WIDE, kind: 'RoleBinding', roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'everything' } },
        subjects: [{ kind: 'ServiceAccount', name: AGENT, namespace: SYSTEM }],
      },
      // Whose token it is: an agent's pod on the node.
      {
        ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'holder', namespace: SYSTEM } },
        spec: {
          ...{ serviceAccountName: AGENT, automountServiceAccountToken: false, terminationGracePeriodSeconds: 0 },
          containers: [{ name: 'pause', image: 'boxoffice.local/pause:1', imagePullPolicy: 'Never' }],
        },
      },
    ],
  }
  await kubectl(['apply', '-f', '-'], JSON.stringify(list))
  await kubectl(['wait', '-n', SYSTEM, 'pod/holder', '--for=condition=PodScheduled', '--timeout=120s'])
  const token = (await kubectl(['create', 'token', AGENT, '-n', SYSTEM, '--bound-object-kind=Pod', '--bound-object-name=holder'])).trim()
  const { [Symbol.asyncDispose]: end, ...api } = await useClusterApi()
  parts.defer(end)
  agent = kubernetesApi({ ...api, token: () => token })
  parts.defer(async () => agent.close())
  // Policies count from a moment after they were made.
  await eventually(async () => expect(await outcome('pods', changed(broken))).toMatch(/namespaces of the host/))
}, 300_000)
afterAll(() => parts.disposeAsync())

const broken = (spec: Loose): void => void Object.assign(spec, { hostPID: true })

const specOf = (fields: object = {}, profile: object = {}): SandboxSpec => ({
  profile: Profile.parse({ name: 'default', image: 'boxoffice/sandbox:latest', ...profile }),
  profileHash: '0123456789abcdef',
  linkDirectory: `${DIRECTORY}/sandboxes/sb_1/link`,
  supervisorPath: `${DIRECTORY}/bin/supervisor-0123456789ab`,
  workspaceDirectory: `${DIRECTORY}/workspaces/sb_1`,
  workspaceReadOnly: false,
  mounts: [],
  pooled: false,
  ...{ uid: 2_000_000_001, gid: 2_000_000_001 },
  ...fields,
})
const OPTIONS = {
  node: NODE,
  installId: nodeInstallId(NODE),
  imagePullPolicy: 'IfNotPresent',
  serviceAccount: 'boxoffice-sandbox',
} as const
/** What the provider makes, and what a case changes of it. */
const changed = (change: (spec: Loose, pod: Loose) => void = () => {}, spec = specOf()): PodManifest => {
  const pod = structuredClone(podOf('sb_1', spec, OPTIONS))
  change(pod.spec, pod)
  return pod
}

/** `taken`, or why the API refuses it. Nothing is made. */
const outcome = async (resource: 'pods' | 'podtemplates', pod: PodManifest): Promise<string> => {
  const body = resource === 'pods' ? pod : templateOf({ ...pod, metadata: { ...pod.metadata, labels: pod.metadata.labels ?? {} } })
  try {
    await agent.call('POST', `/api/v1/namespaces/${SANDBOXES}/${resource}?dryRun=All`, body)
    return 'taken'
  } catch (error) {
    return (error as Error).message
  }
}

describe.each(['pods', 'podtemplates'] as const)('%s by the agent of a node', (resource) => {
  test.each([
    ['with the network off', specOf()],
    ['with the network on', specOf({}, { network: 'on' })],
    ['with a writable root, below /app too', specOf({}, { read_only_rootfs: false, app_alias: true })],
    ['with a workspace that is read-only', specOf({ workspaceReadOnly: true })],
    ['of the pool', specOf({ pooled: true })],
    [
      'with a directory of the node that is allowed',
      specOf({ mounts: [{ source: '/srv/shared/data', target: '/data', readOnly: false }] }),
    ],
  ])('are taken as the provider makes them, %s', async (_, spec) => {
    expect(await outcome(resource, changed(undefined, spec))).toBe('taken')
  })

  const cases = podCases(DIRECTORY)
  test.each(cases)('are refused $name', async ({ refused, says }) => {
    expect(await outcome(resource, changed(refused))).toMatch(says)
  })

  test.each(cases.filter(({ taken }) => taken !== undefined))('are taken beside what is refused $name', async ({ taken }) => {
    expect(await outcome(resource, changed(taken))).toBe('taken')
  })

  test('are refused for a directory beside the one that is allowed', async () => {
    const spec = specOf({ mounts: [{ source: '/srv/sharedx', target: '/data', readOnly: true }] })
    expect(await outcome(resource, changed(undefined, spec))).toMatch(/data directory/)
  })
})

test('a token that is not bound to a pod makes none', async () => {
  const token = (await kubectl(['create', 'token', AGENT, '-n', SYSTEM])).trim()
  await using api = await useClusterApi()
  const unbound = kubernetesApi({ ...api, token: () => token })
  await expect(unbound.call('POST', `/api/v1/namespaces/${SANDBOXES}/pods?dryRun=All`, changed())).rejects.toThrow(/names no node/)
  unbound.close()
})

test('an agent makes a pod, and neither changes nor enters it', async () => {
  const pods = `/api/v1/namespaces/${SANDBOXES}/pods`
  await agent.call(
    'POST',
    pods,
    changed((spec) => void Object.assign(spec, { terminationGracePeriodSeconds: 0 })),
  )
  const as = ['--as', `system:serviceaccount:${SYSTEM}:${AGENT}`, '-n', SANDBOXES]
  const refused = async (...args: string[]) => expect(kubectl([...as, ...args])).rejects.toThrow(/does not change or enter them/)
  await refused('label', 'pod', 'bxo-1', 'more=label')
  await refused('exec', 'bxo-1', '--', 'true')
  await refused('attach', 'bxo-1')
  await refused('debug', 'bxo-1', '--image=boxoffice/sandbox:latest', '--image-pull-policy=Never', '--attach=false', '--', 'true')
  await refused('patch', 'pod', 'bxo-1', '--subresource=status', '--type=merge', '-p', '{"status":{"message":"more"}}')
  await agent.call('DELETE', `${pods}/bxo-1`)
})

test('others than agents are not held to it', async () => {
  const pod = { apiVersion: 'v1', kind: 'Pod', ...changed(broken) }
  await kubectl(['create', '--dry-run=server', '-n', SANDBOXES, '-f', '-'], JSON.stringify(pod))
})

test('the policies have no error of types', async () => {
  const { items } = JSON.parse(await kubectl(['get', 'validatingadmissionpolicy', '-o', 'json']))
  const ours = items.filter(({ metadata }: Loose) => metadata.name.startsWith(`${SANDBOXES}-`))
  expect(ours).toHaveLength(3)
  for (const { status } of ours) expect(status?.typeChecking?.expressionWarnings ?? []).toEqual([])
})

test('the Role of agents is pods and pod templates of the sandboxes, and nothing else', async () => {
  await kubectl(['delete', 'rolebinding', 'everything', '-n', SANDBOXES])
  const can = (verb: string, what: string, namespace: string) => {
    // With a slash kubectl takes the second word for a name.
    const [kind = '', part = ''] = what.split('/')
    const as = ['-n', namespace, '--as', `system:serviceaccount:${SYSTEM}:${AGENT}`, '--subresource', part]
    return kubectl(['auth', 'can-i', verb, kind, ...as]).then(
      () => true,
      () => false,
    )
  }
  // The API server hears of the end of the binding a moment later.
  await eventually(async () => expect(await can('get', 'pods/exec', SANDBOXES)).toBe(false))
  for (const verb of ['create', 'get', 'list', 'watch', 'delete']) expect(await can(verb, 'pods', SANDBOXES)).toBe(true)
  for (const what of ['secrets', 'configmaps', 'serviceaccounts/token', 'pods/exec', 'nodes'])
    expect(await can('get', what, SANDBOXES)).toBe(false)
  for (const verb of ['update', 'patch', 'deletecollection']) expect(await can(verb, 'pods', SANDBOXES)).toBe(false)
  expect(await can('get', 'pods', SYSTEM)).toBe(false)
})
