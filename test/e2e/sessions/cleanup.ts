import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { brokerApi, dataplane } from '../support/api.ts'
import { containersOf } from '../support/engine.ts'
import { type ProviderName, startStack } from '../support/stack.ts'
import { eventually, filesBelow, isBelow, processesWith } from '../support/traces.ts'

const volumes = (provider: ProviderName): string[] =>
  provider === 'docker' ? execFileSync('docker', ['volume', 'ls', '-q'], { encoding: 'utf8' }).split('\n').filter(Boolean) : []

const openSockets = (directory: string): string[] =>
  readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .filter((line) => line.includes(directory))

/** Below the agent's data directory. What is prepared for sandboxes to come has other names each time. */
const filesOf = async (directory: string): Promise<string[]> =>
  (await filesBelow(directory)).map((path) => path.replace(/^(prepared)\/sb_[^/]+/, '$1/one')).sort()

const openFiles = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length

/** [4-36] What is released leaves nothing behind, however often. */
export const cleanupSuite = (provider: ProviderName): void => {
  describe(`${provider}: release`, () => {
    test('200 create and release cycles leave no container, volume, socket, process or file behind', { timeout: 600_000 }, async () => {
      await using stack = await startStack({ provider })
      const broker = brokerApi(stack.brokerUrl)
      const first = await broker.ensure('warm-up')
      await broker.release(first.session_id)
      await eventually(
        'the first sandbox is gone',
        () => processesWith(first.sandbox.id).length === 0 && openSockets(first.sandbox.id).length === 0,
      )
      // Only what is this agent's: others may be at work on the same machine.
      const installId = await readFile(join(stack.agentDataDir, 'install-id'), 'utf8')
      const held = async () => ({
        containers: provider === 'docker' ? containersOf(installId) : [],
        volumes: volumes(provider),
        supervisors: processesWith('/.boxoffice/link').filter((pid) => isBelow(pid, stack.agent().ready.pid)).length,
        files: await filesOf(stack.agentDataDir),
        sockets: openSockets(stack.agentDataDir).length,
      })
      // As many as there are to be, the last of them complete.
      const prepared = async () => (await filesOf(stack.agentDataDir)).filter((path) => path.startsWith('prepared/one/'))
      const numbers = async () =>
        new Set(
          Map.groupBy(await prepared(), (path) => path)
            .values()
            .map(({ length }) => length),
        )
      await expect.poll(numbers, { timeout: 60_000 }).toEqual(new Set([16]))
      const before = await held()
      const descriptors = openFiles(stack.agent().ready.pid)
      for (let i = 0; i < 200; i++) {
        const grant = await broker.ensure(`cycle-${i}`)
        const ran = await dataplane(grant, 'POST', '/exec', { command: `echo ${i} > file; sleep 1000 & cat file` })
        expect(ran.body).toMatchObject({ stdout: `${i}\n`, exit_code: 0 })
        expect((await broker.release(grant.session_id)).status).toBe(204)
      }
      await expect.poll(held, { timeout: 60_000 }).toEqual(before)
      await eventually('the agent holds no more descriptors than before', () => openFiles(stack.agent().ready.pid) <= descriptors + 4)
    })
  })
}
