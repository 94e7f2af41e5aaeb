import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from '@boxoffice/client'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { brokerApi, dataplane, type Grant } from '../support/api.ts'
import { agentEnv } from '../support/places/agent-env.ts'
import type { ProviderName } from '../support/places/place.ts'
import { startProgram } from '../support/program.ts'
import { API_KEY, ENROLL_TOKEN, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

/** The same grant, used through another broker than the one that its URLs name. */
const at = (grant: Grant, brokerUrl = ''): Grant => {
  const moved = (url: string): string => Object.assign(new URL(url), { host: new URL(brokerUrl).host }).href
  const { http_base_url, ws_base_url } = grant.sandbox
  return { ...grant, sandbox: { ...grant.sandbox, http_base_url: moved(http_base_url), ws_base_url: moved(ws_base_url) } }
}

/** A raw socket, and what it hears. */
const openSocket = async (grant: Grant, start: Record<string, unknown>) => {
  const ws = new WebSocket(`${grant.sandbox.ws_base_url}/exec/ws`, 'boxoffice.v1.binary', {
    headers: { authorization: `Bearer ${grant.token}` },
  })
  const frames: Record<string, unknown>[] = []
  let bytes = 0
  let wrong = 0
  ws.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) return void frames.push(JSON.parse(String(data)))
    // `yes` writes "y\n" for ever; a byte that is lost or repeated shows in every later one.
    const output = data.subarray(1)
    for (let i = 0; i < output.length; i++) if (output[i] !== ((bytes + i) % 2 === 0 ? 121 : 10)) wrong++
    bytes += output.length
  })
  const closed = once(ws, 'close').then(([code]) => code as number)
  await once(ws, 'open')
  ws.send(JSON.stringify({ type: 'start', ...start }))
  await eventually('it runs', () => frames.some(({ type }) => type === 'ready'))
  return { ws, frames, closed, bytes: () => bytes, wrong: () => wrong }
}
type BrokerApi = ReturnType<typeof brokerApi>

const errorOf = (frames: readonly Record<string, unknown>[]) => frames.find(({ type }) => type === 'error')?.error

const residentMiB = (pid: number): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
/** Of all brokers: any of them may be the one that relays. */
const brokersMiB = ({ broker, brokerUrls }: Stack): number =>
  brokerUrls.reduce((sum, _, index) => sum + residentMiB(broker(index).ready.pid), 0)

/** What comes between a client and an agent when the broker relays [4-150]. */
export const relaySuite = (provider: ProviderName): void => {
  describe(`[4-152] ${provider}: an agent that goes away in the middle of a relayed stream`, () => {
    test('killed: error BACKEND_UNAVAILABLE, 4503; stopped: 1001', async () => {
      await using stack = await startStack({ provider, mode: 'relay' })
      const grant = await brokerApi(stack.brokerUrl).ensure('gone')
      const killed = await openSocket(grant, { argv: ['yes'], exec_id: 'y' })
      await stack.agent().kill('SIGKILL')
      expect(await killed.closed).toBe(4503)
      expect(errorOf(killed.frames)).toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
      expect(killed.wrong()).toBe(0)
      await stack.startAgent()
      const stopped = await openSocket(grant, { argv: ['sleep', '100'] })
      const ended = stack.agent().stop()
      expect(await stopped.closed).toBe(1001)
      await ended
    })
  })

  describe(`${provider}: the relay`, () => {
    test('[4-153] an agent on a unix socket is reached through the relay, and listens nowhere else for clients', async () => {
      await using stack = await startStack({ provider, mode: 'relay' })
      await stack.agent().stop()
      const path = join(stack.agentDataDir, '..', 'agent.sock')
      const args = [
        'agent',
        ...['--broker-url', stack.brokerUrl, '--enroll-token', ENROLL_TOKEN, '--data-dir', stack.agentDataDir, '--provider', provider],
        ...['--relay', 'always', '--dataplane-listen', `unix:${path}`, '--destroy-on-exit'],
      ]
      const startAgent = () => startProgram(args, agentEnv(provider))
      const agent = await startAgent()
      try {
        expect(agent.ready.agent_url).toBe(`unix:${path}`)
        expect(((await stat(path)).mode & 0o777).toString(8)).toBe('660')
        const session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session('unix')
        expect(session.mode).toBe('relay')
        await session.files.upload('in', 'through a socket file')
        expect(await (await session.exec.start('cat in')).text()).toBe('through a socket file')
        // What a killed agent leaves behind does not keep the next one from listening.
        await agent.kill('SIGKILL')
        const next = await startAgent()
        try {
          expect(await session.exec('cat in')).toMatchObject({ stdout: 'through a socket file' })
          await session.release()
        } finally {
          await next.stop()
        }
      } finally {
        await agent.kill('SIGKILL')
      }
    })

    test('several brokers relay for one agent: what one has granted the other lets pass, and ends', async () => {
      await using stack = await startStack({ provider, mode: 'relay', brokers: 2, balanced: false })
      const [first, other] = stack.brokerUrls.map((url) => brokerApi(url)) as [BrokerApi, BrokerApi]
      const here = await first.ensure('shared')
      const there = await other.ensure('shared')
      expect(there.session_id).toBe(here.session_id)
      // Each token at the other broker, and one process seen through both.
      const crossed = at(here, stack.brokerUrls[1])
      const back = at(there, stack.brokerUrls[0])
      expect((await dataplane(crossed, 'POST', '/exec', { command: 'echo over' })).body).toMatchObject({ stdout: 'over\n' })
      const run = await openSocket(back, { argv: ['yes'], exec_id: 'seen' })
      expect((await dataplane(crossed, 'GET', '/execs/seen')).body).toMatchObject({ exec_id: 'seen' })
      await first.release(here.session_id)
      const refused = await dataplane(crossed, 'GET', '/execs')
      expect([refused.status, refused.text]).toEqual([401, expect.stringContaining('SESSION_RELEASED')])
      expect(await run.closed).toBe(4410)
      expect(run.wrong()).toBe(0)
    })

    test('`up` relays to its own agent where nobody reaches that by its public URL', async () => {
      const dataDir = await mkdtemp(join(tmpdir(), 'bxo-hairpin-'))
      const ports = ['--port', '0', '--agent-port', '0']
      // Nothing listens on port 1: clients are elsewhere, and come by a way that this machine does not have.
      const away = ['--agent-public-url', 'http://127.0.0.1:1', '--provider', provider, '--destroy-on-exit']
      const up = await startProgram(['up', '--data-dir', dataDir, ...ports, ...away], agentEnv(provider))
      try {
        const { broker_url: url, api_key: apiKey } = up.ready
        expect((await fetch(`${url}/readyz`)).status).toBe(200)
        const session = await connect(url, { apiKey }).session('hairpin', { relay: 'always' })
        expect(session.mode).toBe('relay')
        expect(await session.exec('echo over')).toMatchObject({ stdout: 'over\n' })
        await session.release()
      } finally {
        await up.stop()
        await rm(dataDir, { recursive: true, force: true })
      }
    })

    test('[C-35] a relayed reader that stands still costs the broker no memory, and misses no byte afterwards', async () => {
      await using stack = await startStack({ provider, mode: 'relay' })
      const grant = await brokerApi(stack.brokerUrl).ensure('still')
      for (let i = 0; i < 100; i++) await dataplane(grant, 'POST', '/exec', { argv: ['true'] })
      const run = await openSocket(grant, { argv: ['yes'] })
      await eventually('it flows', () => run.bytes() > 4 * 1024 * 1024)
      run.ws.pause()
      const before = brokersMiB(stack)
      const stopped = run.bytes()
      let peak = 0
      for (let i = 0; i < 40; i++) {
        await new Promise((resolve) => setTimeout(resolve, 250))
        peak = Math.max(peak, brokersMiB(stack))
      }
      expect(peak - before).toBeLessThan(16)
      run.ws.resume()
      await eventually('it goes on', () => run.bytes() > stopped + 32 * 1024 * 1024)
      expect(run.wrong()).toBe(0)
      run.ws.terminate()
    })
  })
}
