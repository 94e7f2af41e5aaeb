import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { type Client, connect, type Session } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi } from '../support/api.ts'
import { type Machine, makeCertificates, makeNetwork, type Network } from '../support/network.ts'
import { type Program, startProgram } from '../support/program.ts'
import { API_KEY, ENROLL_TOKEN, type ProviderName } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

const LINES = 3_000_000
/** How long an agent may be silent until its sessions are given up; longer than the cuts of these tests but the last. */
const LOST_AFTER_SECONDS = 20

const numbers = (count: number): Buffer => Buffer.from(`${Array.from({ length: count }, (_, i) => i + 1).join('\n')}\n`)

/** A broker and two agents, each on a machine of its own with TLS on every listener, and the client on a fourth. */
export const twoMachinesSuite = (provider: ProviderName, suite: number): void => {
  describe(`${provider}: a broker and two agents on three machines`, () => {
    let directory: string
    let network: Network
    let broker: Program
    const agents = new Map<string, Program>()
    let client: Client
    let brokerUrl: string
    const trusted = getCACertificates('default')

    const machine = (name: string): Machine => {
      const found = network.machines[name]
      if (found === undefined) throw new Error(`no machine ${name}`)
      return found
    }
    const startAgent = async (name: string, tls: string[], env: Record<string, string>): Promise<void> => {
      const { address, enter } = machine(name)
      const where = ['--host', address, '--port', '7071', '--control-listen', `${address}:7072`, ...tls]
      const who = ['--broker-url', brokerUrl, '--enroll-token', ENROLL_TOKEN, '--data-dir', join(directory, name)]
      agents.set(name, await startProgram(['agent', ...where, ...who, '--provider', provider, '--destroy-on-exit'], env, enter))
    }
    /** Which agent a session is at, by what an operator sees. */
    const agentOf = async (session: Session): Promise<Machine> => {
      const grant = await brokerApi(brokerUrl).ensure(String(session.threadId), { relay: 'never' })
      const host = new URL(grant.sandbox.http_base_url).hostname
      const found = Object.values(network.machines).find(({ address }) => address === host)
      if (found === undefined) throw new Error(`no machine at ${host}`)
      return found
    }
    const connected = async (): Promise<boolean[]> => {
      const { agents: listed } = (await brokerApi(brokerUrl).get('/v1/agents')).body as { agents: { connected: boolean }[] }
      return listed.map((agent) => agent.connected)
    }

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'bxo-'))
      network = makeNetwork(['broker', 'one', 'two'], suite)
      const { ca, cert, key } = makeCertificates(
        directory,
        Object.values(network.machines).map(({ address }) => address),
      )
      setDefaultCACertificates([...trusted, await readFile(ca, 'utf8')])
      const env = { NODE_EXTRA_CA_CERTS: ca, BOXOFFICE_AGENT_LOST_AFTER: String(LOST_AFTER_SECONDS) }
      const tls = ['--tls-cert', cert, '--tls-key', key]
      const { address, enter } = machine('broker')
      brokerUrl = `https://${address}:7070`
      const who = ['--data-dir', join(directory, 'broker'), '--enroll-token', ENROLL_TOKEN, '--api-key', API_KEY]
      broker = await startProgram(['broker', '--host', address, '--port', '7070', ...tls, ...who], env, enter)
      await Promise.all(['one', 'two'].map((name) => startAgent(name, tls, env)))
      client = connect(brokerUrl, { apiKey: API_KEY })
    })
    afterAll(async () => {
      client?.close()
      for (const { plug } of Object.values(network?.machines ?? {})) plug()
      for (const agent of agents.values()) await agent.stop()
      await broker?.stop()
      setDefaultCACertificates(trusted)
      network?.[Symbol.dispose]()
      await rm(directory, { recursive: true, force: true })
    })

    test('sessions are spread over both, and answer directly and through the broker', async () => {
      const sessions = await Promise.all(['a', 'b', 'c', 'd'].map((thread) => client.session(thread)))
      const places = await Promise.all(sessions.map(agentOf))
      expect(new Set(places.map(({ address }) => address)).size).toBe(2)
      for (const session of sessions) {
        const relayed = await client.session(String(session.threadId), { relay: 'always' })
        expect([session.details.mode, relayed.details.mode]).toEqual(['direct', 'relay'])
        await session.files.upload('where.txt', String(session.threadId))
        expect((await relayed.exec('cat where.txt')).stdout).toBe(session.threadId)
      }
    })

    test.each(['direct', 'relay'] as const)(
      '%s: an agent is cut off in the middle of a stream for longer than the broker waits, and comes back: every byte once, the true exit',
      async (mode) => {
        const session = await client.session(`cut-${mode}`, { relay: mode === 'relay' ? 'always' : 'never' })
        const place = await agentOf(session)
        const run = await session.exec.start(`seq 1 ${LINES}; exit 6`)
        const pieces: Uint8Array[] = []
        let [length, cut] = [0, false]
        for await (const piece of run.stdout) {
          pieces.push(piece)
          length += piece.length
          if (cut || length < 1_000_000) continue
          cut = true
          place.unplug()
          await eventually('the broker misses the agent', async () => (await connected()).includes(false))
          // While it is away, what is new goes to the other one.
          for (const thread of ['x', 'y']) expect(await agentOf(await client.session(`${mode}-${thread}`))).not.toBe(place)
          place.plug()
        }
        expect(cut).toBe(true)
        expect(Buffer.concat(pieces).equals(numbers(LINES))).toBe(true)
        expect(await run.exit).toMatchObject({ exitCode: 6, reason: 'exited' })
        await eventually('the agent is back', async () => !(await connected()).includes(false))
        expect((await session.exec('echo still here')).stdout).toBe('still here\n')
      },
    )

    test('an agent that stays away loses its sessions: ensure makes a new one elsewhere, and what comes back is cleaned away', async () => {
      const session = await client.session('lost')
      const place = await agentOf(session)
      await session.exec('echo before > state')
      place.unplug()
      try {
        await eventually(
          'its session has failed',
          async () => {
            const { body } = await brokerApi(brokerUrl).get(`/v1/sandbox/sessions/${session.id}?token=false`)
            return JSON.stringify((body as { binding: { state: string; reason: string } }).binding).includes('agent_lost')
          },
          LOST_AFTER_SECONDS * 1000 + 20_000,
        )
        const next = await client.session('lost')
        expect(next.id).not.toBe(session.id)
        expect(await agentOf(next)).not.toBe(place)
        expect((await next.exec('cat state 2>/dev/null; echo new')).stdout).toBe('new\n')
      } finally {
        place.plug()
      }
      await eventually('the agent is back', async () => !(await connected()).includes(false))
      // Its token is of a session that has ended, wherever it is shown.
      await expect(session.exec('cat state')).rejects.toThrow()
    }, 120_000)
  })
}
