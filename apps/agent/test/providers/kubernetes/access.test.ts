import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { kubeconfigAccess, podAccess } from '../../../src/providers/kubernetes/access.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp('/tmp/bxo-access-')
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const base64 = (text: string): string => Buffer.from(text).toString('base64')

const kubeconfig = async (user: object, cluster: object = {}): Promise<string> => {
  const path = join(directory, 'config')
  const config = {
    ...{ apiVersion: 'v1', kind: 'Config', preferences: {}, 'current-context': 'here' },
    contexts: [
      { name: 'there', context: { cluster: 'none', user: 'none' } },
      { name: 'here', context: { cluster: 'c', user: 'u', namespace: 'boxes' } },
    ],
    clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:6443', ...cluster } }],
    users: [{ name: 'u', user }],
  }
  await writeFile(path, JSON.stringify(config))
  return path
}

describe('a kubeconfig', () => {
  test('has a token, and whose certificate the server must have', async () => {
    const access = kubeconfigAccess(await kubeconfig({ token: 'secret' }, { 'certificate-authority-data': base64('PEM') }))
    expect(access).toMatchObject({ server: 'https://127.0.0.1:6443', ca: 'PEM', insecure: false, namespace: 'boxes', client: undefined })
    expect(access.token?.()).toBe('secret')
  })

  test('has a client certificate, or names files beside it', async () => {
    await writeFile(join(directory, 'key.pem'), 'KEY\n')
    const user = { 'client-certificate-data': base64('CERT'), 'client-key': 'key.pem' }
    expect(kubeconfigAccess(await kubeconfig(user))).toMatchObject({ client: { cert: 'CERT', key: 'KEY' }, token: undefined })
  })

  test('names a file with a token, which is read anew', async () => {
    await writeFile(join(directory, 'token'), 'first\n')
    const { token } = kubeconfigAccess(await kubeconfig({ tokenFile: 'token' }))
    expect(token?.()).toBe('first')
    await writeFile(join(directory, 'token'), 'second\n')
    expect(token?.()).toBe('second')
  })

  test('that is none is refused with what is wrong, and without what is in it', async () => {
    const path = await kubeconfig({ exec: { command: 'aws' } })
    expect(() => kubeconfigAccess(path)).toThrow(/neither a token nor a client certificate/)
    await writeFile(path, 'apiVersion: v1\nusers: [{name: u, user: {token: hush}}]\n')
    expect(() => kubeconfigAccess(path)).toThrow(/is not JSON; kubectl config view/)
    expect(() => kubeconfigAccess(path)).not.toThrow(/hush/)
    await writeFile(path, JSON.stringify({ 'current-context': 'x', users: [{ name: 'u', user: { token: 7 } }] }))
    expect(() => kubeconfigAccess(path)).toThrow(/contexts, clusters, users\.0\.user\.token/)
    expect(() => kubeconfigAccess(join(directory, 'none'))).toThrow(/ENOENT/)
  })
})

describe('the service account of a pod', () => {
  test('is there where the kubelet has mounted its token', async () => {
    expect(podAccess({ KUBERNETES_SERVICE_HOST: '10.0.0.1' }, directory)).toBeUndefined()
    for (const [name, text] of Object.entries({ token: 'one', 'ca.crt': 'PEM', namespace: 'boxes' }))
      await writeFile(join(directory, name), text)
    expect(podAccess({}, directory)).toBeUndefined()
    const access = podAccess({ KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' }, directory)
    expect(access).toMatchObject({ server: 'https://[fd00::1]:6443', ca: 'PEM', insecure: false, namespace: 'boxes' })
    await writeFile(join(directory, 'token'), 'two')
    expect(access?.token?.()).toBe('two')
  })
})
