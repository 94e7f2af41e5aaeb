import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Profile } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { AgentConfig, createAgent } from '../../src/index.ts'
import { processesWith } from '../support/processes.ts'
import { ENROLL_TOKEN, TestBroker } from './support/broker.ts'
import { silent } from './support/host.ts'

const BOXOFFICE = fileURLToPath(new URL('../../../cli/bin/boxoffice', import.meta.url))

let broker: TestBroker
let root: string
let dataDir: string
const children = new Set<ChildProcess>()

beforeEach(async () => {
  broker = await TestBroker.start()
  root = await mkdtemp('/tmp/bxc-')
  dataDir = join(root, 'agent')
})

afterEach(async () => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  children.clear()
  const cleaner = createAgent(AgentConfig.parse({ ...configuration(), destroyOnExit: true }), { log: silent })
  await cleaner.start()
  await cleaner.close()
  await broker.close()
  await rm(root, { recursive: true, force: true })
})

const configuration = () => ({ dataDir, port: 0, brokerUrl: broker.url, enrollToken: ENROLL_TOKEN, provider: 'local' })

/** An agent in a process of its own, ready. */
const agentProcess = async (): Promise<{ child: ChildProcess; controlUrl: string }> => {
  const { brokerUrl, enrollToken, provider } = configuration()
  const flags = ['--data-dir', root, '--port', '0', '--broker-url', brokerUrl, '--enroll-token', enrollToken, '--provider', provider]
  const child = spawn(BOXOFFICE, ['agent', '--json', ...flags], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  children.add(child)
  const [line] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer]
  expect(JSON.parse(line.toString())).toMatchObject({ event: 'ready', provider: 'local', pid: child.pid })
  return { child, controlUrl: broker.registrations.at(-1)?.control_url ?? '' }
}

const create = (controlUrl: string, session: string) =>
  fetch(`${controlUrl}/control/v1/sessions/${session}/sandbox`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${broker.controlToken()}`, 'content-type': 'application/json' },
    body: JSON.stringify({ tenant_id: 't', profile: Profile.parse({ name: 'default' }) }),
  })

/** Every process that names this data directory or where it is mounted: bubblewrap's monitors do, with whatever is inside of them. */
const processesOfDataDirectory = async (): Promise<number[]> => {
  const installId = (await readFile(join(dataDir, 'install-id'), 'utf8')).trim()
  return [dataDir, `/boxoffice/${installId}/`].flatMap(processesWith)
}

describe('an agent that is killed', () => {
  test('finds its sandbox again, with a process that never noticed', async () => {
    const { child, controlUrl } = await agentProcess()
    const made = (await (await create(controlUrl, 's1')).json()) as { sandbox_id: string }
    child.kill('SIGKILL')
    await once(child, 'exit')
    await agentProcess()
    expect(broker.registrations.at(-1)?.sandboxes).toMatchObject([{ sandbox_id: made.sandbox_id, session_id: 's1', state: 'running' }])
  })

  test('leaves nothing that the next one does not find, wherever it was', { timeout: 120_000 }, async () => {
    for (const killedAfterMs of [0, 8, 20, 60, 120, 200]) {
      const { child, controlUrl } = await agentProcess()
      const asked = [1, 2, 3, 4].map((n) => create(controlUrl, `${killedAfterMs}-${n}`).catch(() => undefined))
      setTimeout(() => child.kill('SIGKILL'), killedAfterMs)
      await once(child, 'exit')
      await Promise.all(asked)
    }
    broker.keeps = new Set()
    const agent = createAgent(AgentConfig.parse({ ...configuration(), destroyOnExit: true }), { log: silent })
    await agent.start()
    await broker.heartbeat(
      ({ sandboxes, instance_id }) => sandboxes.length === 0 && instance_id === broker.registrations.at(-1)?.instance_id,
    )
    await expect.poll(processesOfDataDirectory).toEqual([])
    for (const name of ['sandboxes', 'workspaces', 'local', 'prepared']) expect(await readdir(join(dataDir, name))).toEqual([])
    await agent.close()
  })
})
