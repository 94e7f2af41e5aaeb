import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { kubectl } from '../../apps/agent/test/conformance/provider/cluster/cluster.ts'

const RUN = '/run/boxoffice-cluster'
const SYSTEM = 'boxoffice-system'
const SANDBOXES = 'boxoffice-sandboxes'
const INSTALL_MS = 1_200_000
const BRIEF = [{ name: 'brief', idle_after_seconds: 0.5, idle_timeout_seconds: 1 }]

type Pod = {
  metadata: { name: string }
  spec: { nodeName: string }
  status: { podIP: string; containerStatuses: { restartCount: number }[] }
}

const run = async (command: string, args: readonly string[], env: Record<string, string> = {}): Promise<string> => {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } })
  const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}: ${code}\n${errors}\n${output}`)
  return output
}
const podsOf = async (namespace: string, name?: string): Promise<Pod[]> => {
  const selector = name === undefined ? [] : ['-l', `app.kubernetes.io/name=${name}`]
  return JSON.parse(await kubectl(['get', 'pods', '-n', namespace, ...selector, '-o', 'json'])).items
}
const apiKey = () => readFile(`${RUN}/secrets/api-key`, 'utf8')
const inNetwork = async (...command: string[]) =>
  run('nsenter', [`--net=${RUN}/network`, ...command], { BOXOFFICE_API_KEY: await apiKey() })

beforeAll(async () => {
  await run('sh', ['deploy/cluster/cluster.sh', 'boxoffice', '--set-json', `broker.settings=${JSON.stringify({ profiles: BRIEF })}`])
}, INSTALL_MS)
afterAll(async () => {
  await run('sh', ['deploy/cluster/cluster.sh', 'helm', 'uninstall', 'boxoffice', '-n', SYSTEM, '--wait'])
  await kubectl(['delete', 'namespace', SYSTEM, '--wait'])
}, INSTALL_MS)

test('two brokers and the agent of the node run, and the agent is enrolled by its token', async () => {
  const brokers = await podsOf(SYSTEM, 'boxoffice-broker')
  expect(brokers).toHaveLength(2)
  const [agent] = await podsOf(SYSTEM, 'boxoffice-agent')
  const { agents } = JSON.parse(await broker(brokers[0], '/v1/agents'))
  expect(agents).toMatchObject([
    { connected: true, relay: 'always', provider: { name: 'kubernetes', available: true, suspend: ['freeze', 'stop'] } },
  ])
  const { entries } = JSON.parse(await broker(brokers[1], '/v1/audit?event=agent.register'))
  expect(entries[0]).toMatchObject({
    caller: `k8s-node.${agent?.spec.nodeName}`,
    data: { service_account: 'boxoffice-system/boxoffice-agent', node: agent?.spec.nodeName },
  })
})

test('a thread has one sandbox over both brokers: files, commands, freeze, wake and release through the relay', async () => {
  const urls = (await podsOf(SYSTEM, 'boxoffice-broker')).map(({ status }) => `http://${status.podIP}:7070`)
  const told = JSON.parse(
    await inNetwork(
      process.execPath,
      '--disable-warning=ExperimentalWarning',
      'test/cluster/boxoffice-program.ts',
      urls.join(','),
      'brief',
    ),
  )
  expect(told).toMatchObject({
    ...{ provider: 'kubernetes', modes: ['relay', 'relay'], exitCode: 0, froze: 'freeze', woken: 'hello\n' },
    stdout: expect.stringMatching(/^hello\n2\d{9}\n1\n$/),
  })
  expect(told.sessions[0]).toBe(told.sessions[1])
  expect(told.after).toBe('SESSION_NOT_FOUND')
  await expect
    .poll(async () => (await kubectl(['get', 'pods,podtemplates', '-n', SANDBOXES, '-o', 'name'])).trim(), { interval: 500 })
    .toBe('')
})

test('an agent that is replaced finds its sandboxes again', async () => {
  const [first] = await podsOf(SYSTEM, 'boxoffice-broker')
  const url = `http://${first?.status.podIP}:7070`
  const cli = (...args: string[]) => inNetwork('env', `BOXOFFICE_URL=${url}`, 'apps/cli/bin/boxoffice', ...args)
  await cli('exec', '--thread', 'replaced', '--', 'sh', '-c', 'echo here > kept.txt')
  const before = await podsOf(SANDBOXES)
  expect(before).toHaveLength(1)
  await kubectl(['rollout', 'restart', 'daemonset/boxoffice-agent', '-n', SYSTEM])
  await kubectl(['rollout', 'status', 'daemonset/boxoffice-agent', '-n', SYSTEM, '--timeout=300s'])
  expect(await cli('exec', '--thread', 'replaced', '--', 'cat', 'kept.txt')).toBe('here\n')
  expect((await podsOf(SANDBOXES)).map(({ metadata }) => metadata.name)).toEqual(before.map(({ metadata }) => metadata.name))
})

/** A GET at one broker, as an operator. */
async function broker(pod: Pod | undefined, path: string): Promise<string> {
  return inNetwork(
    'curl',
    '-sS',
    '--fail-with-body',
    '-H',
    `authorization: Bearer ${await apiKey()}`,
    `http://${pod?.status.podIP}:7070${path}`,
  )
}
