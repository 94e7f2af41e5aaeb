import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { brokerApi, dataplane } from '../support/api.ts'
import { type ProviderName, startStack } from '../support/stack.ts'
import { eventually, filesBelow, processesWith } from '../support/traces.ts'

/** Containers of any state that carry the product's label; none for the local provider. */
const containers = (provider: ProviderName): string[] =>
  provider === 'docker'
    ? execFileSync('docker', ['ps', '-aq', '--filter', 'label=boxoffice.managed=true'], { encoding: 'utf8' }).split('\n').filter(Boolean)
    : []

const volumes = (provider: ProviderName): string[] =>
  provider === 'docker' ? execFileSync('docker', ['volume', 'ls', '-q'], { encoding: 'utf8' }).split('\n').filter(Boolean) : []

const openSockets = (directory: string): string[] =>
  readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .filter((line) => line.includes(directory))

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
      const before = {
        containers: containers(provider),
        volumes: volumes(provider),
        supervisors: processesWith('/.boxoffice/link').length,
        files: await filesBelow(stack.agentDataDir),
        sockets: openSockets(stack.agentDataDir).length,
      }
      const descriptors = openFiles(stack.agent().ready.pid)
      for (let i = 0; i < 200; i++) {
        const grant = await broker.ensure(`cycle-${i}`)
        const ran = await dataplane(grant, 'POST', '/exec', { command: `echo ${i} > file; sleep 1000 & cat file` })
        expect(ran.body).toMatchObject({ stdout: `${i}\n`, exit_code: 0 })
        expect((await broker.release(grant.session_id)).status).toBe(204)
      }
      await eventually(
        'everything is as before',
        async () => {
          const now = {
            containers: containers(provider),
            volumes: volumes(provider),
            supervisors: processesWith('/.boxoffice/link').length,
            files: await filesBelow(stack.agentDataDir),
            sockets: openSockets(stack.agentDataDir).length,
          }
          return JSON.stringify(now) === JSON.stringify(before)
        },
        60_000,
      )
      await eventually('the agent holds no more descriptors than before', () => openFiles(stack.agent().ready.pid) <= descriptors + 4)
    })
  })
}
