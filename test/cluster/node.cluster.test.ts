import { afterAll, beforeAll, expect, test } from 'vitest'
import { getObject, kubectl } from './kubectl.ts'

type Pod = { status: { phase: string; podIP: string } }

const POD = 'boxoffice-node-test'
/** A sandbox as the Kubernetes provider starts one, without its supervisor: a foreign uid, no capabilities, limits. */
const MANIFEST = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: POD },
  spec: {
    terminationGracePeriodSeconds: 0,
    automountServiceAccountToken: true,
    securityContext: { runAsUser: 1234, runAsGroup: 1234, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'sandbox',
        image: 'docker.io/boxoffice/sandbox:latest',
        imagePullPolicy: 'Never',
        command: ['python3', '-m', 'http.server', '8080', '--directory', '/etc'],
        readinessProbe: { httpGet: { path: '/hostname', port: 8080 }, periodSeconds: 1 },
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        resources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { cpu: '500m', memory: '128Mi' } },
      },
    ],
  },
}

const remove = () => kubectl(['delete', 'pod', POD, '--ignore-not-found', '--wait'])
const inside = (...command: string[]) => kubectl(['exec', POD, '--', ...command])

beforeAll(async () => {
  await remove()
  await kubectl(['apply', '-f', '-'], JSON.stringify(MANIFEST))
  await kubectl(['wait', 'pod', POD, '--for=condition=Ready', '--timeout=120s'])
})
afterAll(remove)

test('a pod of the sandbox image runs with its limits, and commands run in it', async () => {
  expect((await inside('id', '-u')).trim()).toBe('1234')
  expect(await inside('sh', '-c', 'cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; true')).toContain(
    `${128 * 1024 ** 2}`,
  )
})

test('a pod has an address of its own', async () => {
  const pod = await getObject<Pod>('pod', POD)
  expect(await inside('curl', '-sS', `http://${pod?.status.podIP}:8080/hostname`)).toBe(`${POD}\n`)
})

test('a pod reaches the API with the token and the certificate of its service account', async () => {
  const call =
    'curl -sS --cacert $A/ca.crt -H "authorization: Bearer $(cat $A/token)" https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/version'
  const version = JSON.parse(await inside('sh', '-c', `A=/var/run/secrets/kubernetes.io/serviceaccount; ${call}`))
  expect(version.gitVersion).toMatch(/^v1\.34\./)
})

test('the kubelet refuses a pod', async () => {
  const status = await inside('curl', '-sSk', '-o', '/tmp/answer', '-w', '%{http_code}', `https://172.30.77.1:10250/pods`)
  expect(status).toBe('401')
})

test('a deleted pod is gone', async () => {
  await remove()
  expect(await getObject('pod', POD)).toBeUndefined()
})
