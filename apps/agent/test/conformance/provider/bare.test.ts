import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { Profile } from '@boxoffice/protocol'
import { describe, expect, onTestFinished, test } from 'vitest'
import { AgentConfig, createAgent } from '../../../src/index.ts'
import { type CandidateOptions, PROVIDERS, providerCandidates } from '../../../src/providers/candidates.ts'
import { createProviderSelector } from '../../../src/providers/provider-selector.ts'
import { ENROLL_TOKEN, TestBroker } from '../../host/support/broker.ts'
import { Host, type OpenProvider, silent } from '../../host/support/host.ts'
import { bare, bareDirectory } from './bare-provider.ts'
import { providerSuite } from './suite.ts'

/** As the agent does it, but for one line more in the table. */
const candidates = (options: Partial<CandidateOptions>) =>
  providerCandidates(
    {
      ...{ provider: 'bare', isolation: 'auto', sameUser: false, unsafeRefused: null, dockerHost: undefined, dataDirectory: '/nowhere' },
      ...{ kubernetes: { imagePullPolicy: 'IfNotPresent', runtimeClasses: [] } },
      ...{ installId: 'feed000000000000', instanceId: '0123456789ab', defaultImage: 'some/image:1', log: silent, ...options },
    },
    { ...PROVIDERS, bare },
  )

const open: OpenProvider = async ({ path, installId }, instanceId) => {
  const selector = createProviderSelector(candidates({ dataDirectory: path, installId, instanceId }), silent)
  await selector.look()
  return selector.require()
}

describe('[2-33] a new backend is a new provider and its registration', () => {
  providerSuite({
    kind: 'none',
    open,
    cycles: 20,
    accident: async ({ provider }, sandbox) => {
      for await (const { id, engineId } of provider.sandboxes.list()) if (id === sandbox.id) process.kill(Number(engineId), 'SIGKILL')
    },
    remains: ({ dataDirectory }) => readdir(bareDirectory(dataDirectory)),
  })

  test('it has its turn after those that ship, and by its name alone', () => {
    const auto = candidates({ provider: 'auto', dockerHost: 'unix:///nowhere.sock' })
    expect(auto.map(({ name }) => name)).toEqual(['engine of --docker-host', 'local', 'bare'])
    expect(candidates({ provider: 'bare' }).map(({ name }) => name)).toEqual(['bare'])
  })

  test('without isolation it is refused where others can reach the agent, as any is', async () => {
    await using host = await Host.start(open)
    const selector = createProviderSelector(candidates({ dataDirectory: host.dataDirectory, unsafeRefused: 'others can reach it' }), silent)
    expect(await selector.look()).toBe(false)
    expect(selector.reason).toBe('bare: others can reach it')
  })

  test('an agent reports it with what it cannot do, and makes its sandboxes by it', async () => {
    const broker = await TestBroker.start()
    const dataDir = await mkdtemp('/tmp/bxa-')
    const config = AgentConfig.parse({ dataDir, port: 0, brokerUrl: broker.url, enrollToken: ENROLL_TOKEN, destroyOnExit: true })
    const agent = createAgent(config, { log: silent, candidates: candidates({ dataDirectory: dataDir }) })
    onTestFinished(async () => {
      await agent.close()
      await broker.close()
      await rm(dataDir, { recursive: true, force: true })
    })
    const { controlUrl, provider, isolation } = await agent.start()
    expect({ provider, isolation }).toEqual({ provider: 'bare', isolation: 'none' })
    expect(broker.registrations[0]?.provider).toMatchObject({
      ...{ name: 'bare', available: true, suspend: ['stop'] },
      capabilities: {
        limits: [],
        not_enforced: ['cpus', 'memory_mb', 'pids_limit', 'read_only_rootfs', 'tmp_size', 'workspace_disk'],
        extra_mounts: false,
      },
    })
    const made = await fetch(`${controlUrl}/control/v1/sessions/s1/sandbox`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${broker.controlToken()}`, 'content-type': 'application/json' },
      body: JSON.stringify({ tenant_id: 't', profile: Profile.parse({ name: 'default' }) }),
    })
    expect(await made.json()).toMatchObject({ session_id: 's1', provider: 'bare', isolation: 'none', state: 'running' })
  })
})
