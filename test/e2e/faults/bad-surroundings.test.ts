import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane, request } from '../support/api.ts'
import { type Program, runProgram, startProgram } from '../support/program.ts'
import { expectRefusal } from '../support/refusal.ts'

const SESSIONS = '/v1/sandbox/sessions'

const up = (dataDir: string, ...args: string[]): string[] => [
  ...['up', '--port', '0', '--agent-port', '0', '--provider', 'local', '--destroy-on-exit', '--log-level', 'silent'],
  ...['--data-dir', dataDir, ...args],
]

describe('a disk that is full', () => {
  let directory: string
  let program: Program
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'bxo-full-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m,mode=700', 'bxo-full', directory])
    program = await startProgram(up(directory))
  })
  afterAll(async () => {
    await program?.stop()
    execFileSync('umount', [directory])
    await rm(directory, { recursive: true })
  })

  test('[4-108] an upload that does not fit is 507; the old file is whole and nothing of the new one is left', async () => {
    const grant = await brokerApi(program.ready.broker_url, program.ready.api_key).ensure('full')
    const upload = (path: string, body: BodyInit) =>
      request(`${grant.sandbox.http_base_url}/files/upload?path=${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${grant.token}` },
        body,
      })
    expect((await upload('data', 'old')).status).toBe(200)
    const tooMuch = Buffer.alloc(32 * 1024 * 1024, 'n')
    expect(expectRefusal(await upload('data', tooMuch), 507, 'QUOTA_EXCEEDED').message).toMatch(/"data".*no space/)
    expect(expectRefusal(await upload('new/data', tooMuch), 507, 'QUOTA_EXCEEDED').message).toMatch(/no space/)
    const seen = await dataplane(grant, 'POST', '/exec', { command: 'cat data; find . -type f' })
    expect(seen.body).toMatchObject({ stdout: 'old./data\n' })
    expect((await upload('data', Buffer.alloc(1024 * 1024))).status).toBe(200)
  })
})

test('a log whose disk is full: the program starts, serves and stops as ever', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-log-'))
  try {
    const args = up(directory).map((arg) => (arg === 'silent' ? 'debug' : arg))
    const program = await startProgram(args, {}, ['sh', '-c', 'exec "$@" 2>/dev/full', 'sh'])
    try {
      const grant = await brokerApi(program.ready.broker_url, program.ready.api_key).ensure('logged')
      expect((await dataplane(grant, 'POST', '/exec', { command: 'echo here' })).body).toMatchObject({ stdout: 'here\n' })
    } finally {
      expect(await program.stop()).toBe(0)
    }
  } finally {
    await rm(directory, { recursive: true })
  }
})

describe('a start that cannot work', () => {
  let directory: string
  const file = async (name: string, content: string): Promise<string> => {
    await writeFile(join(directory, name), content)
    return join(directory, name)
  }
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'bxo-start-'))
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  const refused = async (args: string[], line: RegExp, env: Record<string, string> = {}): Promise<void> => {
    const ran = await runProgram([...args, '--json'], env)
    expect([ran.code, ran.stdout], ran.stderr).toEqual([1, ''])
    expect(ran.stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(ran.stderr).toMatch(line)
    expect(ran.stderr).not.toMatch(/\n\s+at |undefined/)
  }

  test.each([
    ['a misspelt flag', ['--prot', '1'], /^boxoffice: unknown option '--prot' \(Did you mean --port\?\); --help/],
    ['a port that is none', ['--port', '70000'], /^boxoffice: --port: /],
    ['a weak key', ['--api-key', 'short'], /^boxoffice: --api-key: .*32 characters; generate one with/],
    ['a listener for all without a key', ['--host', '0.0.0.0'], /^boxoffice: .*0\.0\.0\.0 needs an API key: set --api-key/],
    ['a key out of an example', ['--host', '0.0.0.0', '--api-key', 'changeme'.repeat(5)], /--api-key.*known example/],
    ['an agent for all without TLS', ['--control-listen', '0.0.0.0:0'], /--control-listen.*--tls-cert/],
    ['half of TLS', ['--tls-cert', 'x.pem'], /--tls-cert and --tls-key belong together/],
  ] as const)('%s', async (name, args, line) => refused(up(join(directory, name.replaceAll(' ', '-')), ...args), line))

  test.each([
    ['is not there', undefined, /none\.json .*no such file/],
    ['is no JSON', '{', /config\.json cannot be read as JSON/],
    ['is no object', '[]', /config\.json must hold one JSON object/],
    ['holds an unknown setting', '{"prot":1}', /prot is not a setting here; there are: .*port/],
    ['holds a profile with a misspelt field', '{"profiles":[{"name":"p","imag":"x"}]}', /profiles in the config file: .*imag/],
    ['holds a value of the wrong kind', '{"max_sessions":"many"}', /max_sessions in the config file: /],
  ] as const)('a config file that %s', async (_, content, line) => {
    const path = content === undefined ? join(directory, 'none.json') : await file('config.json', content)
    await refused(up(join(directory, 'config-data'), '--config', path), line)
    await refused(up(join(directory, 'config-data')), line, { BOXOFFICE_CONFIG: path })
    expect(await readdir(directory)).not.toContain('config-data')
  })

  test('TLS files that are none, a config that is a directory, a data directory below a file', async () => {
    const junk = await file('junk.pem', 'junk')
    await refused(up(join(directory, 'tls'), '--tls-cert', junk, '--tls-key', junk), /--tls-cert and --tls-key.*PEM/)
    await refused(up(join(directory, 'tls'), '--config', directory), /^boxoffice: config: .* cannot be read/)
    await refused(up(join(junk, 'below')), /data_dir \(--data-dir, BOXOFFICE_DATA_DIR\): .*junk\.pem/)
  })

  test('[2.14] ports and directories that are in use are told with their holder, who goes on', async () => {
    const dataDir = join(directory, 'held')
    const holder = await startProgram(up(dataDir))
    try {
      const { broker_url, agent_url, api_key, pid } = holder.ready
      const other = join(directory, 'other')
      await refused(up(other, '--port', new URL(broker_url).port), /^boxoffice: port \d+ on 127\.0\.0\.1 is in use; .*--port/)
      await refused(up(other, '--agent-port', new URL(agent_url).port), /^boxoffice: port \d+ on 127\.0\.0\.1 is in use; .*--agent-port/)
      await refused(up(dataDir), new RegExp(`in use by another broker \\(pid ${pid}\\).*--shared-data-dir`))
      const broker = ['broker', '--port', '0', '--data-dir', join(dataDir, 'broker')]
      await refused(broker, new RegExp(`in use by another broker \\(pid ${pid}\\)`))
      const agent = ['agent', '--port', '0', '--broker-url', broker_url, '--enroll-token', 'x', '--data-dir', join(dataDir, 'agent')]
      await refused(agent, new RegExp(`another agent \\(pid ${pid}\\) uses .*--data-dir`))
      const grant = await brokerApi(broker_url, api_key).ensure('still')
      expect((await dataplane(grant, 'POST', '/exec', { command: 'echo here' })).body).toMatchObject({ stdout: 'here\n' })
    } finally {
      await holder.stop()
    }
  })

  test('[2.14] a database that is damaged or of a newer version is named and left as it is', async () => {
    const dataDir = join(directory, 'database')
    const path = join(dataDir, 'broker', 'broker.db')
    const first = await startProgram(up(dataDir))
    const { session_id } = await brokerApi(first.ready.broker_url, first.ready.api_key).ensure('kept')
    await first.stop()
    const good = await readFile(path)

    const damaged = Buffer.from(good).fill(0xff, 4096)
    await writeFile(path, damaged)
    await refused(up(dataDir), /broker\.db is damaged .*restore it from a backup, or move it away/)
    expect((await readFile(path)).equals(damaged)).toBe(true)

    const newer = Buffer.from(good)
    newer.writeUInt32BE(9999, 60) // SQLite's user_version
    await writeFile(path, newer)
    await refused(up(dataDir), /broker\.db was written by a newer Boxoffice \(schema 9999/)
    expect((await readFile(path)).equals(newer)).toBe(true)

    await writeFile(path, good)
    const again = await startProgram(up(dataDir))
    const found = await brokerApi(again.ready.broker_url, again.ready.api_key).get(`${SESSIONS}/${session_id}?token=false`)
    expect(found.status).toBe(200)
    await again.stop()
  })

  test('[2.14] a broker of its own that never comes: the agent starts, is not ready, and says why', async () => {
    const dataDir = join(directory, 'lonely')
    await mkdir(dataDir)
    const args = ['agent', '--port', '0', '--provider', 'local', '--data-dir', dataDir, '--log-level', 'silent']
    const agent = await startProgram([...args, '--broker-url', 'http://127.0.0.1:1', '--enroll-token', 'x'])
    try {
      const ready = await request(`${agent.ready.agent_url}/readyz`)
      expect([ready.status, ready.body]).toMatchObject([503, { reasons: [expect.stringContaining('broker')] }])
      expectRefusal(await request(`${agent.ready.agent_url}/nowhere`), 404, 'NOT_FOUND')
    } finally {
      await agent.stop()
    }
  })
})
