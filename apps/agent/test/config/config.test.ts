import { describe, expect, test } from 'vitest'
import { AgentConfig } from '../../src/index.ts'

const least = { dataDir: '/var/lib/boxoffice', brokerUrl: 'http://127.0.0.1:7070', enrollToken: 'token' }

describe('configuration', () => {
  test('needs three settings and has sensible defaults for the rest', () => {
    expect(AgentConfig.parse(least)).toEqual({
      ...least,
      host: '127.0.0.1',
      port: 7071,
      controlListen: '127.0.0.1:0',
      insecureNetwork: false,
      relay: 'auto',
      provider: 'auto',
      isolation: 'auto',
      allowUnsafeLocal: false,
      sameUser: false,
      allowedHostMountRoots: [],
      blockedHostPaths: [],
      hostMirrors: true,
      defaultImage: 'boxoffice/sandbox:latest',
      poolConcurrency: 2,
      kubernetes: { imagePullPolicy: 'IfNotPresent', runtimeClasses: [] },
      reserve: {},
      corsOrigins: [],
      trustedProxies: [],
      dataplaneRates: {},
      destroyOnExit: false,
      maxConnections: 8192,
      fastIo: {
        ...{ splice: true, readAhead: true, gcHint: true, bufferPool: true, sharedReads: true },
        ...{ prefork: true, prewarm: true },
      },
    })
  })

  test.each([
    ['dataDir', { dataDir: 'relative' }, /absolute/],
    ['brokerUrl', { brokerUrl: 'ftp://x' }, /http/],
    ['provider', { provider: 'podman' }, /docker/],
    ['controlListen', { controlListen: 'no-port' }, /host:port/],
    ['controlListen', { controlListen: '0.0.0.0:7072' }, /--tls-cert.*--insecure-network/],
    ['controlListen', { controlListen: '127.0.0.999:7072' }, /--tls-cert/],
    ['dataplaneListen', { dataplaneListen: 'unix:/run/agent.sock' }, /--relay always/],
    ['dataplaneListen', { dataplaneListen: '/run/agent.sock', relay: 'always' }, /must be unix:/],
    ['dataplaneUrl', { dataplaneUrl: 'ftp://host' }, /http/],
    ['previewDomain', { previewDomain: 'https://previews.example.com' }, /domain in lower case/],
    ['tlsKey', { tlsCert: '/cert.pem' }, /belong together/],
  ])('names %s and the fix', (path, fields, message) => {
    const issue = AgentConfig.safeParse({ ...least, ...fields }).error?.issues[0]
    expect({ path: issue?.path.join('.'), message: issue?.message }).toEqual({ path, message: expect.stringMatching(message) })
  })

  test.each([
    { controlListen: '[::1]:0' },
    { controlListen: '[::ffff:127.0.0.1]:0' },
    { controlListen: 'localhost:7072' },
    { controlListen: '10.0.0.5:7072', insecureNetwork: true },
    { controlListen: '10.0.0.5:7072', tlsCert: '/cert.pem', tlsKey: '/key.pem' },
  ])('accepts %o', (fields) => {
    expect(AgentConfig.safeParse({ ...least, ...fields }).success).toBe(true)
  })
})
