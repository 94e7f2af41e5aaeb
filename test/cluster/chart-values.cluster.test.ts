import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { CHART, helm, render } from './helm.ts'

test('deploy/kubernetes/boxoffice.yaml is what the chart renders: sh deploy/kubernetes/render.sh', async () => {
  expect(await readFile('deploy/kubernetes/boxoffice.yaml', 'utf8')).toBe(
    await render('boxoffice-system', { namespaces: { createSystem: true } }),
  )
})

test('the chart has no finding', async () => {
  expect(await helm('lint', '--strict', CHART)).toContain('0 chart(s) failed')
})

describe('values that are refused', () => {
  test.each([
    ['one broker', { broker: { replicas: 1 } }, /replicas/],
    ['a name that there is not', { brokers: { replicas: 2 } }, /brokers/],
    ['a name that there is not, further down', { agent: { dataDirectory: '/x' } }, /dataDirectory/],
    ['a URL with a path', { publicUrl: 'https://boxoffice.example/x' }, /publicUrl/],
    ['a data directory that is relative', { agent: { dataDir: 'var' } }, /dataDir/],
    ['a data directory that goes back', { agent: { dataDir: '/var/../etc' } }, /dataDir/],
    ['a data directory too long for sockets', { agent: { dataDir: `/${'x'.repeat(40)}` } }, /dataDir/],
    ['a data directory that ends a text', { agent: { dataDir: "/a' || true || '" } }, /dataDir/],
    ['a namespace that is none', { namespaces: { sandboxes: 'Sand_Boxes' } }, /sandboxes/],
    ['a token shorter than the kubelet makes', { agent: { tokenSeconds: 60 } }, /tokenSeconds/],
    ['a secret instead of its name', { secrets: { apiKey: 'bxo_x' } }, /apiKey/],
    ['keys of the cluster without TLS', { cluster: { jwksUrl: 'http://10.0.0.1/jwks' } }, /jwksUrl/],
    ['a pull policy that is none', { images: { pullPolicy: 'Sometimes' } }, /pullPolicy/],
    ['a network that is none', { networkPolicies: { blockedIPv4: ['10.0.0.0'] } }, /blockedIPv4/],
    ['no network at all', { networkPolicies: { brokerFrom: [] } }, /brokerFrom/],
    ['a directory of the nodes that ends a text', { sandboxes: { hostMountRoots: ["/a'b"] } }, /hostMountRoots/],
    ['settings by another spelling', { broker: { settings: { tokenTtl: 60 } } }, /tokenTtl/],
  ])('%s', async (_, values, says) => {
    await expect(render('boxoffice-system', values)).rejects.toThrow(says)
  })
})

test('values reach what they are for', async () => {
  const text = await render('apart', {
    broker: { settings: { token_ttl: 300 }, trustedProxies: ['10.0.0.1'] },
    sandboxes: { hostMountRoots: ['/srv/shared'] },
    serviceMonitor: { enabled: true },
    networkPolicies: { enabled: false },
    admissionPolicy: { enabled: false },
  })
  for (const part of [
    '{\\"token_ttl\\":300}',
    'value: "10.0.0.1"',
    'kind: ServiceMonitor',
    '{\\"allowed_host_mount_roots\\":[\\"/srv/shared\\"]}',
  ])
    expect(text).toContain(part)
  for (const kind of ['NetworkPolicy', 'ValidatingAdmissionPolicy']) expect(text).not.toContain(`kind: ${kind}`)
  expect(text).toContain('apart/boxoffice-agent')
})
