import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { partDirectory } from '../src/settings/data-dir.ts'
import { run, start, startUp } from './support/program.ts'

const temporary = (): string => {
  const directory = mkdtempSync(join(tmpdir(), 'bxo-layout-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}
/** It ends with its test, however that ends. */
const begin = (args: string[]) => {
  const running = start(args)
  onTestFinished(async () => {
    running.child.kill('SIGTERM')
    await running.ended
  })
  return running
}
const ALONE = ['--port', '0', '--log-level', 'silent']

test('[2.14] broker and agent keep their files in directories of the same names, whichever command runs them', async () => {
  const dataDir = temporary()
  const broker = begin(['broker', '--data-dir', dataDir, ...ALONE])
  await broker.says('enroll-token')
  // Without a key it makes one; both are said, as is how an agent comes to it.
  const { url, key } = /broker +(?<url>\S+)\n +api key +(?<key>bxo_\S+)\n/.exec(broker.stdout)?.groups ?? {}
  expect(readFileSync(join(dataDir, 'broker/api-key'), 'utf8').trim()).toBe(key)
  const token = readFileSync(join(dataDir, 'broker/enroll-token'), 'utf8').trim()
  expect(broker.stdout).toContain(`--broker-url ${url} --enroll-token "$(cat ${join(dataDir, 'broker/enroll-token')})"`)
  const whom = ['--broker-url', String(url), '--enroll-token', token, '--provider', 'local', '--destroy-on-exit']
  const agent = begin(['agent', '--data-dir', dataDir, ...whom, ...ALONE])
  await agent.says('Ready.')
  expect(readFileSync(join(dataDir, 'agent/install-id'), 'utf8')).not.toBe('')
  // The key is found by commands of this machine.
  const env = { BOXOFFICE_URL: String(url), BOXOFFICE_DATA_DIR: dataDir }
  expect(await run(['exec', '--', 'echo', 'here'], { env })).toMatchObject({ code: 0, stdout: 'here\n' })

  for (const command of [['up', '--agent-port', '0', '--provider', 'local'], ['broker']])
    expect(await run([...command, '--data-dir', dataDir, ...ALONE])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^boxoffice: the data directory \S+ is in use by another broker \(pid \d+\)/),
    })
  for (const { child, ended } of [agent, broker]) {
    child.kill('SIGTERM')
    expect((await ended).code).toBe(0)
  }
  expect(partDirectory(dataDir, 'broker')).toBe(join(dataDir, 'broker'))
  // Of an earlier version, which kept them there: they stay in use.
  expect(partDirectory(join(dataDir, 'broker'), 'broker')).toBe(join(dataDir, 'broker'))
  expect(partDirectory(join(dataDir, 'agent'), 'agent')).toBe(join(dataDir, 'agent'))
}, 120_000)

test('a second broker beside a running up is refused', async () => {
  const up = await startUp()
  onTestFinished(async () => void (await up.stop()))
  expect(await run(['broker', '--data-dir', String(up.env.BOXOFFICE_DATA_DIR), ...ALONE])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`in use by another broker (pid ${up.ready.pid})`),
  })
}, 120_000)

test('up without a provider does not say that it is ready, but what is missing', async () => {
  const dataDir = temporary()
  const engine = ['--provider', 'docker', '--docker-host', `unix://${dataDir}/none.sock`]
  const running = begin(['up', '--data-dir', dataDir, '--agent-port', '0', ...engine, ...ALONE])
  await running.says('Ctrl-C')
  expect(running.stdout).toMatch(/^Boxoffice runs, but it can make no sandbox yet\.\n/)
  expect(running.stdout).toMatch(/\n {2}provider +none\n/)
  expect(running.stdout).toMatch(/\nMissing: engine of --docker-host: no such socket/)
  expect(running.stdout).not.toMatch(/ready|Try/)
  running.child.kill('SIGTERM')
  expect((await running.ended).code).toBe(0)
}, 120_000)
