import { readFileSync, statSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type BrokerConfig, createBroker, StartError } from '../../src/index.ts'
import { openDatabase } from '../../src/store/sqlite/engine/database.ts'
import { MIGRATIONS } from '../../src/store/sqlite/engine/migrations.ts'
import { removeDir, tempDir } from '../support/test-broker.ts'

let dataDir: string
beforeEach(() => {
  dataDir = tempDir()
})
afterEach(() => removeDir(dataDir))

const KEY = 'Zx3vPq8rT1mN5kW9yB2cD7fG4hJ6sL0a'
const start = async (config: Partial<BrokerConfig> = {}) => {
  const broker = createBroker({ dataDir, port: 0, logLevel: 'silent', ...config })
  return { broker, ...(await broker.start()) }
}
const refusal = (config: Partial<BrokerConfig> = {}): Promise<Error> =>
  start(config).then(
    async ({ broker }) => {
      await broker.close()
      throw new Error('it started')
    },
    (thrown: Error) => thrown,
  )

describe('[2.14] a database that must not be touched', () => {
  const path = () => join(dataDir, 'broker.db')
  const seed = async () => (await start()).broker.close()

  test.each([
    ['no database at all', async () => writeFileSync(path(), 'these are notes, not a database '.repeat(100))],
    [
      'a damaged header',
      async () => {
        await seed()
        const bytes = readFileSync(path())
        bytes.fill(0x41, 0, 64)
        writeFileSync(path(), bytes)
      },
    ],
    [
      'damaged pages',
      async () => {
        await seed()
        const bytes = readFileSync(path())
        bytes.fill(0xff, 4096, bytes.length)
        writeFileSync(path(), bytes)
      },
    ],
  ])('%s: refused with its path and what to do, unchanged', async (_, damage) => {
    await damage()
    const before = readFileSync(path())
    const error = await refusal()
    expect(error).toBeInstanceOf(StartError)
    expect(error.message).toContain(path())
    expect(error.message).toMatch(/restore it from a backup, or move it away/)
    expect(readFileSync(path()).equals(before)).toBe(true)
  })

  test('one of a newer version: refused, unchanged', async () => {
    await seed()
    const db = await openDatabase(path())
    db.pragma(`user_version = ${MIGRATIONS.length + 1}`)
    db.pragma('wal_checkpoint(TRUNCATE)')
    db.close()
    const before = readFileSync(path())
    const error = await refusal()
    expect(error.message).toContain(path())
    expect(error.message).toContain('newer Boxoffice')
    expect(readFileSync(path()).equals(before)).toBe(true)
  })

  test('[C-72] the audit log refuses changes, also by hand', async () => {
    await seed()
    const db = await openDatabase(path())
    db.prepare("INSERT INTO audit (ts, event, outcome) VALUES (1, 'x', 'ok')").run()
    expect(() => db.prepare("UPDATE audit SET event = 'y'").run()).toThrow(/append-only/)
    expect(() => db.prepare('DELETE FROM audit').run()).toThrow(/append-only/)
    db.close()
  })
})

describe('[2.14] one broker per data directory', () => {
  test('a second one is refused, naming the pid of the first; afterwards it may start', async () => {
    const { broker } = await start()
    const error = await refusal()
    expect(error).toBeInstanceOf(StartError)
    expect(error.message).toContain(`pid ${process.pid}`)
    expect(error.message).toContain('--shared-data-dir')
    expect((await refusal({ sharedDataDir: true })).message).toContain(`pid ${process.pid}`)
    await broker.close()
    await (await start()).broker.close()
  })

  test('[4-15] several that start at once on a new directory all start', async () => {
    const all = await Promise.all(Array.from({ length: 4 }, () => start({ sharedDataDir: true, createApiKey: true })))
    expect(new Set(all.map(({ enrollToken }) => enrollToken)).size).toBe(1)
    await Promise.all(all.map(({ broker }) => broker.close()))
  })

  test('[4-15] two that both share it run together; one that does not is refused', async () => {
    const [a, b] = [await start({ sharedDataDir: true }), await start({ sharedDataDir: true })]
    expect((await refusal()).message).toContain('in use')
    await a.broker.close()
    await b.broker.close()
  })
})

describe('settings', () => {
  test.each([
    ['apiKey', { apiKey: 'short' }, /apiKey \(--api-key\).*at least 32/],
    ['port', { port: 70_000 }, /port \(--port\)/],
    ['tokenTtl', { tokenTtl: 5 }, /tokenTtl \(--token-ttl\)/],
    ['publicUrl', { publicUrl: 'ftp://x' }, /publicUrl \(--public-url\)/],
    ['profiles', { profiles: [{ name: 'Bad Name' }] }, /profiles\.0\.name/],
    ['a listener without a key', { host: '0.0.0.0' }, /0\.0\.0\.0 needs an API key.*--api-key/],
    ['a listener with a known key', { host: '0.0.0.0', apiKey: 'changeme-changeme-changeme-changeme' }, /apiKey.*known example/],
    ['a listener with a short enroll token', { host: '0.0.0.0', apiKey: KEY, enrollToken: 'aB3$xyz90' }, /--enroll-token.*32/],
    ['TLS files that are missing', { tls: { cert: '/nowhere/cert.pem', key: '/nowhere/key.pem' } }, /--tls-cert/],
  ] as const)('[9] %s: refused, naming the setting', async (_, config, message) => {
    const error = await refusal(config as Partial<BrokerConfig>).catch((thrown: Error) => thrown)
    expect(error).toBeInstanceOf(StartError)
    expect(error.message).toMatch(message)
  })

  test('a port in use: refused, naming it; the data directory is free again', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const { port } = other.address() as AddressInfo
    expect((await refusal({ port })).message).toMatch(new RegExp(`port ${port} .* in use.*--port`))
    other.close()
    await (await start()).broker.close()
  })

  test('[9] with a key the broker listens elsewhere, and its URLs are the public ones', async () => {
    const { broker, url, apiKeyCreated } = await start({
      host: '0.0.0.0',
      apiKey: KEY,
      publicUrl: 'https://box.example/',
      createApiKey: true,
    })
    expect([url, apiKeyCreated]).toEqual(['https://box.example', undefined])
    await broker.close()
  })

  test.each([
    ['http://box.example', 1],
    ['https://box.example', 0],
    ['http://127.0.0.1:1', 0],
  ])('[4-58] the public URL %s gives %i warnings', async (publicUrl, warnings) => {
    const lines: string[] = []
    const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })
    const broker = createBroker({ dataDir, port: 0, publicUrl }, { log })
    await broker.start()
    await broker.close()
    expect(lines.filter((line) => line.includes('not https'))).toHaveLength(warnings)
  })

  test('secrets of the data directory have mode 0600, the directory 0700', async () => {
    const fresh = join(dataDir, 'new')
    const { broker } = await start({ dataDir: fresh, createApiKey: true })
    expect(statSync(fresh).mode & 0o777).toBe(0o700)
    for (const name of ['api-key', 'enroll-token', 'broker.db', 'broker.db-wal'])
      expect(statSync(join(fresh, name)).mode & 0o777).toBe(0o600)
    await broker.close()
  })
})
