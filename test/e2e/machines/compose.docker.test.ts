import { execFile, execFileSync } from 'node:child_process'
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { request } from '../support/api.ts'
import { boxApi, openRpc } from '../support/box.ts'
import { ROOT } from '../support/program.ts'
import { eventually } from '../support/traces.ts'

const run = promisify(execFile)
const PROJECT = 'bxo-compose-test'
/** Where the agent of deploy/compose.yaml keeps what it has. */
const AGENT_DIRECTORY = '/var/lib/boxoffice-agent'

const answers = (program: string, ...args: string[]): boolean => {
  try {
    execFileSync(program, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** The plugin, or the program of its own that Debian packages. */
const composeProgram = async (): Promise<readonly string[]> => {
  if (answers('docker', 'compose', 'version')) return ['docker', 'compose']
  if (!answers('docker-compose', 'version')) await run('apt-get', ['install', '-y', '--no-install-recommends', 'docker-compose'])
  return ['docker-compose']
}

describe('deploy/compose.yaml, on images of the project, without a variable', () => {
  let directory: string
  let compose: (...args: string[]) => Promise<string>
  let key: string

  beforeAll(async () => {
    const [program = '', ...before] = await composeProgram()
    // Nothing of whoever runs the tests reaches the file.
    const env = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/root' }
    compose = async (...args) =>
      (await run(program, [...before, '-p', PROJECT, '-f', `${ROOT}deploy/compose.yaml`, ...args], { env })).stdout
    directory = await mkdtemp(join(tmpdir(), 'bxo-compose-'))
    // A base with this Node, from the image that sandboxes have: no registry is asked.
    await copyFile(process.execPath, join(directory, 'node'))
    await writeFile(join(directory, 'Dockerfile'), 'FROM boxoffice/sandbox:latest\nCOPY node /usr/local/bin/node\n')
    await run('docker', ['build', '--force-rm', '-t', 'boxoffice/test-node:latest', directory])
    await run('sh', [`${ROOT}deploy/images/product.sh`], { env: { ...process.env, BASE: 'boxoffice/test-node:latest' } })
    await compose('up', '-d')
    await eventually(
      'it is ready',
      async () => (await request('http://127.0.0.1:7070/readyz').catch(() => undefined))?.status === 200,
      120_000,
    )
    key = (await compose('exec', '-T', 'broker', 'cat', '/run/boxoffice/api-key')).trim()
  }, 300_000)

  afterAll(async () => {
    await compose?.('down', '-v')
    for (const path of [directory, AGENT_DIRECTORY]) await rm(path, { recursive: true, force: true })
  }, 120_000)

  test('[2-44, 2-46] the Box surface is at 5410 and its RPC at 5411, with a key that was made for it', { timeout: 180_000 }, async () => {
    const box = boxApi('http://127.0.0.1:5410', key)
    expect(await box.output('s1', 'echo from a container')).toBe('from a container\n')
    const rpc = await openRpc('ws://127.0.0.1:5411/', key)
    expect(await rpc.call('box_get_session', { session_id: 's1' })).toMatchObject({ code: 0, data: { backend_name: 'docker' } })
    expect((await request('http://127.0.0.1:5410/v1/sessions')).status).toBe(401)
    rpc.close()
  })

  test('[2-28] its containers have the labels that tools of the Box surface look for', { timeout: 180_000 }, async () => {
    const box = boxApi('http://127.0.0.1:5410', key)
    await box.create('labelled')
    const { backend } = (await box.status()).body as { backend: { instance_id: string } }
    const found = await run('docker', [
      ...['ps', '-q', '--filter', 'label=langbot.session_id=labelled', '--filter', 'label=langbot.box=true'],
      ...['--filter', `label=langbot.box.instance_id=${backend.instance_id}`, '--filter', 'label=boxoffice.managed=true'],
    ])
    expect(found.stdout.trim().split('\n')).toHaveLength(1)
    expect(backend.instance_id).toMatch(/^[0-9a-f]{12}$/)
  })

  test('[2-27] a session that is deleted leaves no container', { timeout: 180_000 }, async () => {
    const box = boxApi('http://127.0.0.1:5410', key)
    const rpc = await openRpc('ws://127.0.0.1:5411/', key)
    await box.create('gone')
    expect(await rpc.call('box_shutdown')).toMatchObject({ code: 0 })
    const left = async () => (await run('docker', ['ps', '-aq', '--filter', 'label=langbot.session_id=gone'])).stdout
    await eventually('no container is left', async () => (await left()) === '')
    rpc.close()
  })
})
