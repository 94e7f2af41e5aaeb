import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { camelCase, environmentName, kebabCase } from '../src/settings/config-file.ts'
import { resolveConnection } from '../src/settings/connection.ts'
import { partSettings, sourcesOf, upSettings } from '../src/settings/service.ts'
import { parseLocation } from '../src/transfer/location.ts'

const directory = mkdtempSync(join(tmpdir(), 'bxo-settings-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))
const fileOf = (content: unknown): string => {
  const path = join(directory, `${crypto.randomUUID()}.json`)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const Broker = z.object({
  host: z.string().default('127.0.0.1'),
  port: z.coerce.number().int().min(0).max(65535).default(7070),
  dataDir: z.string(),
  publicUrl: z.url().optional(),
  enrollToken: z.string().optional(),
  sharedDataDir: z.boolean().default(false),
  corsOrigins: z.array(z.string()).default([]),
  seconds: z.number().positive().default(1),
  count: z.coerce.number().int().min(1).optional(),
  relaySplice: z.string().optional(),
  limits: z.object({ perSecond: z.number() }).optional(),
  tls: z.object({ cert: z.string(), key: z.string() }).optional(),
})
const Agent = z.object({
  dataDir: z.string(),
  host: z.string().default('127.0.0.1'),
  port: z.number().int().min(0).max(65535).default(7071),
  publicUrl: z.url().optional(),
  brokerUrl: z.url(),
  enrollToken: z.string().min(1),
  destroyOnExit: z.boolean().default(false),
})
const broker = (flags: Record<string, unknown>, env: NodeJS.ProcessEnv = {}) =>
  partSettings(Broker, [Agent], sourcesOf({ dataDir: join(directory, 'data'), ...flags }, env), 'broker')

describe('settings of a service', () => {
  test('come from flags, then the environment, then the file', () => {
    const config = fileOf({ port: 1, host: 'file.example', shared_data_dir: true, corsOrigins: ['a'] })
    const env = { BOXOFFICE_PORT: '2', BOXOFFICE_HOST: 'env.example', BOXOFFICE_CONFIG: config }
    expect(broker({ port: '3' }, env)).toMatchObject({ port: 3, host: 'env.example', sharedDataDir: true, corsOrigins: ['a'] })
    expect(broker({}, { ...env, BOXOFFICE_SHARED_DATA_DIR: 'false', BOXOFFICE_HOST: '' })).toMatchObject({
      port: 2,
      host: 'file.example',
      sharedDataDir: false,
    })
  })

  test("are read by their former names too, and today's name of the same source wins", () => {
    const config = fileOf({ relay_mover: 'of the file' })
    expect(broker({ config })).toMatchObject({ relaySplice: 'of the file' })
    expect(broker({ config }, { BOXOFFICE_RELAY_MOVER: 'of the environment' })).toMatchObject({ relaySplice: 'of the environment' })
    const both = { BOXOFFICE_RELAY_MOVER: 'former', BOXOFFICE_RELAY_SPLICE: 'current' }
    expect(broker({ config }, both)).toMatchObject({ relaySplice: 'current' })
    expect(broker({ relayMover: 'of a flag' }, both)).toMatchObject({ relaySplice: 'of a flag' })
  })

  test('of every kind can be said in the environment', () => {
    const env = {
      BOXOFFICE_CORS_ORIGINS: 'https://a.example, https://b.example',
      BOXOFFICE_LIMITS: '{"perSecond":5}',
      BOXOFFICE_SHARED_DATA_DIR: '1',
    }
    expect(broker({ tlsCert: 'c.pem', tlsKey: 'k.pem' }, env)).toMatchObject({
      corsOrigins: ['https://a.example', 'https://b.example'],
      limits: { perSecond: 5 },
      sharedDataDir: true,
      tls: { cert: 'c.pem', key: 'k.pem' },
    })
  })

  test('that are objects are written in JSON, by the names that they have in the file', () => {
    expect(broker({ limits: '{"per_second":5}' })).toMatchObject({ limits: { perSecond: 5 } })
    expect(broker({}, { BOXOFFICE_LIMITS: '{"perSecond":5}' })).toMatchObject({ limits: { perSecond: 5 } })
    expect(() => broker({ limits: '{"per_second":"x"}' })).toThrow(/^--limits: perSecond: /)
  })

  const wrong: [name: string, settings: () => unknown, message: RegExp][] = [
    ['a flag that is no number', () => broker({ port: 'abc' }), /^--port: "abc" is not a whole number from 0 to 65535$/],
    ['a flag that only looks like one', () => broker({ port: 'true' }), /^--port: "true" is not a whole number/],
    ['half a number', () => broker({ port: '1.5' }), /^--port: "1.5" is not a whole number/],
    ['a number that is too small', () => broker({ seconds: '0' }), /^--seconds: "0" is not a number above 0$/],
    ['a count that is too small', () => broker({ count: '-1' }), /^--count: "-1" is not a whole number of at least 1$/],
    ['a number in the file', () => broker({ config: fileOf({ port: 'x' }) }), /^port in the config file: "x" is not a whole number/],
    ['a bad variable', () => broker({}, { BOXOFFICE_PORT: '70000' }), /^BOXOFFICE_PORT: .*65535/],
    ['a bad value in the file', () => broker({ config: fileOf({ public_url: 'x' }) }), /^public_url in the config file: /],
    [
      'a bad value deep in the file',
      () => broker({ config: fileOf({ limits: { perSecond: 'x' } }) }),
      /limits in the config file: perSecond: /,
    ],
    ['a misspelt name', () => broker({ config: fileOf({ prot: 1 }) }), /prot is not a setting here; there are: .*port/],
    ['a file that is no JSON', () => broker({ config: fileOf('{') }), /cannot be read as JSON/],
    ['a file that is no object', () => broker({ config: fileOf([]) }), /one JSON object/],
    ['a file that is not there', () => broker({ config: '/nowhere.json' }), /nowhere\.json/],
    ['half of TLS', () => broker({ tlsCert: 'c.pem' }), /belong together/],
    ['a place that cannot be made', () => broker({ dataDir: '/proc/nope' }), /data_dir .*\/proc\/nope cannot be made/],
    ['what is missing', () => partSettings(Agent, [Broker], sourcesOf({ dataDir: directory }, {}), 'agent'), /--broker-url .*is required/],
  ]
  test.for(wrong)('name %s, and where it came from', ([, settings, message]) => {
    expect(settings).toThrow(message)
  })

  test('of both are told apart under `up`, each in a directory of its own', () => {
    const flags = {
      dataDir: join(directory, 'up'),
      host: '0.0.0.0',
      port: '1',
      agentPort: '2',
      agentPublicUrl: 'http://a.example',
      destroyOnExit: true,
    }
    const settings = upSettings(Broker, Agent, sourcesOf(flags, {}))
    expect(settings.broker).toMatchObject({ port: 1, host: '0.0.0.0', dataDir: join(directory, 'up', 'broker') })
    expect(settings.broker.publicUrl).toBeUndefined()
    expect(settings.agent).toMatchObject({
      port: 2,
      host: '0.0.0.0',
      dataDir: join(directory, 'up', 'agent'),
      publicUrl: 'http://a.example',
    })
    expect(settings.agent.enrollToken.length).toBeGreaterThan(30)
  })

  test('have one name in three spellings', () => {
    expect(camelCase('shared-data_dir')).toBe('sharedDataDir')
    expect(kebabCase('sharedDataDir')).toBe('shared-data-dir')
    expect(environmentName('sharedDataDir')).toBe('BOXOFFICE_SHARED_DATA_DIR')
  })
})

describe('the broker to talk to', () => {
  test('is this machine by default, with the key that `up` left', () => {
    const dataDir = mkdtempSync(join(directory, 'state-'))
    const env = { XDG_STATE_HOME: dataDir }
    expect(() => resolveConnection({}, env)).toThrow(/no API key.*--api-key.*boxoffice up/)
    upSettings(Broker, Agent, sourcesOf({ dataDir: join(dataDir, 'boxoffice') }, {}))
    const path = join(dataDir, 'boxoffice', 'broker')
    partSettings(Broker, [], sourcesOf({ dataDir: path }, {}), 'broker')
    writeFileSync(join(path, 'api-key'), 'bxo_local\n')
    chmodSync(join(path, 'api-key'), 0o600)
    expect(resolveConnection({}, env)).toEqual({ broker: 'http://127.0.0.1:7070', apiKey: 'bxo_local' })
    // It never leaves this machine.
    expect(() => resolveConnection({ broker: 'https://broker.example' }, env)).toThrow(/no API key/)
    expect(() => resolveConnection({ broker: 'http://127.evil.example.com' }, env)).toThrow(/no API key/)
  })

  test('comes from flags, environment or file', () => {
    const config = fileOf({ broker: 'https://file.example', api_key: 'f' })
    expect(resolveConnection({ config }, {})).toEqual({ broker: 'https://file.example', apiKey: 'f' })
    expect(resolveConnection({ config }, { BOXOFFICE_URL: 'https://env.example' })).toEqual({ broker: 'https://env.example', apiKey: 'f' })
    expect(resolveConnection({ broker: 'https://flag.example', apiKey: 'k' }, { BOXOFFICE_API_KEY: 'e' })).toEqual({
      broker: 'https://flag.example',
      apiKey: 'k',
    })
    expect(() => resolveConnection({ broker: 'nonsense', apiKey: 'k' }, {})).toThrow(/--broker.*http\(s\) URL/)
  })
})

test('one side of a copy is here or in a sandbox', () => {
  const rows: [string, object][] = [
    ['a.txt', { kind: 'local', path: 'a.txt' }],
    ['t:a.txt', { kind: 'sandbox', thread: 't', path: 'a.txt' }],
    ['t:', { kind: 'sandbox', thread: 't', path: '.' }],
    [':a', { kind: 'sandbox', thread: undefined, path: 'a' }],
    ['./a:b', { kind: 'local', path: './a:b' }],
    ['/x/a:b', { kind: 'local', path: '/x/a:b' }],
    ['t:/tmp/a:b', { kind: 'sandbox', thread: 't', path: '/tmp/a:b' }],
  ]
  for (const [text, location] of rows) expect(parseLocation(text)).toEqual(location)
})
