import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { brokerApi, dataplane, request } from '../support/api.ts'
import { containersOf } from '../support/engine.ts'
import { type ProviderName, startStack } from '../support/stack.ts'
import { eventually, processesWith } from '../support/traces.ts'

type Binding = { binding: { state: string; reason: string | null } }
type Line = { level: number; msg: string; sandboxes?: number }

const linesOf = (log: string): Line[] =>
  log
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))

/** [2-27] One shutdown path, once. */
export const shutdownSuite = (provider: ProviderName): void => {
  describe(`${provider}: SIGTERM to an agent with --destroy-on-exit`, () => {
    test('[2-27] ends every sandbox, says so in one line, and no session is left with one that is gone', async () => {
      const pooled = { name: 'pooled', pool_size: 1, memory_mb: 64 }
      await using stack = await startStack({ provider, config: { profiles: [pooled] } })
      const broker = brokerApi(stack.brokerUrl)
      const [busy, idle] = [await broker.ensure('busy'), await broker.ensure('idle')]
      const time = `1000.${process.pid}`
      await dataplane(busy, 'POST', '/exec', { command: `setsid sleep ${time} >/dev/null 2>&1 & echo left` })
      const sandboxes = (): Promise<string[]> => readdir(join(stack.agentDataDir, 'sandboxes'))
      const metrics = `${stack.agent().ready.agent_url}/metrics`
      await eventually('one waits in the pool', async () => /pool_ready\{profile="pooled"\} 1$/m.test((await request(metrics)).text))
      const ids = await sandboxes()
      const installId = await readFile(join(stack.agentDataDir, 'install-id'), 'utf8')

      const { child, stderr } = stack.agent()
      // Not `exit`: what it wrote last may come after that.
      const exited = once(child, 'close')
      // As npm and a terminal tell one Ctrl-C.
      child.kill('SIGINT')
      child.kill('SIGTERM')
      expect(await exited).toEqual([0, null])

      expect(containersOf(installId)).toEqual([])
      // A process that was killed is there until it has had a processor once more.
      await expect.poll(() => [...ids, time].flatMap(processesWith)).toEqual([])
      expect(await sandboxes()).toEqual([])
      const lines = linesOf(stderr())
      expect(lines.filter(({ msg }) => msg.includes('--destroy-on-exit'))).toMatchObject([{ sandboxes: 3 }])
      expect(lines.filter(({ level }) => level > 30)).toEqual([])

      for (const { session_id: id } of [busy, idle]) {
        const { body } = await broker.get(`/v1/sandbox/sessions/${id}?token=false`)
        expect((body as Binding).binding).toMatchObject({ state: 'failed', reason: 'agent_stopped' })
      }
      // Nor does the broker try what there is nobody left for.
      expect(linesOf(stack.broker().stderr()).filter(({ level }) => level > 30)).toEqual([])
      await stack.startAgent()
      const next = await broker.ensure('busy')
      expect(next.sandbox.id).not.toBe(busy.sandbox.id)
      expect((await dataplane(next, 'POST', '/exec', { command: 'ls; echo new' })).body).toMatchObject({ stdout: 'new\n' })
    })
  })
}
