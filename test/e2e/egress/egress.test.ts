import { connect, type Session, type SessionEvent } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, MODES, type Stack, startStack } from '../support/stack.ts'

const PROFILES = [
  { name: 'proxied', network: 'proxy', egress: { allow: ['packages.example'], deny: ['*.evil.example'] } },
  { name: 'held', network: 'proxy', egress: { allow: ['@packages'] }, locked: ['egress'] },
  { name: 'closed', network: 'none' },
]
const LISTS = { packages: ['packages.example', '*.cdn.example'] }

describe.each(MODES)('%s', (mode) => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider: 'local', mode, config: { profiles: PROFILES, egress_lists: LISTS } })
  })
  afterAll(() => stack[Symbol.asyncDispose]())

  const open = (thread: string, profile: string): Promise<Session> =>
    connect(stack.brokerUrl, { apiKey: API_KEY }).session(thread, { profile })

  test('[sbx-releases#611] a program is told why it does not get out, and so is whoever follows its session', async () => {
    await using session = await open('followed', 'proxied')
    const events = session.events()
    const refused = await session.exec('curl -sS http://www.evil.example/a')
    expect(JSON.parse(refused.stdout)).toMatchObject({ code: 'denied', host: 'www.evil.example', rule: '*.evil.example' })
    expect((await session.exec('curl -sS https://other.example/')).exitCode).not.toBe(0)
    const told: SessionEvent[] = []
    for await (const event of events) {
      if (event.type === 'egress') told.push(event)
      if (told.length === 2) break
    }
    expect(told).toMatchObject([
      { allowed: false, code: 'denied', host: 'www.evil.example', port: 80, method: 'GET', path: '/a', rule: '*.evil.example', times: 1 },
      { allowed: false, code: 'not_allowed', host: 'other.example', port: 443, protocol: 'connect', times: 1 },
    ])
  })

  test('what a request sets itself comes before what the agent sets', async () => {
    await using session = await open('own', 'proxied')
    const { stdout } = await session.exec('echo $HTTPS_PROXY $HTTP_PROXY $HOME', { env: { HTTPS_PROXY: 'http://own' } })
    expect(stdout).toBe('http://own http://127.0.0.1:3128 /workspace/.boxoffice/home\n')
  })

  test('the built-in profile with a network has the proxy, and the one without has nothing', async () => {
    await using on = await open('on', 'network_basic')
    expect((await on.exec('curl -sS http://169.254.169.254/latest/')).stdout).toContain('not_allowed')
    await using off = await open('off', 'default')
    expect((await off.exec('echo "proxy:$HTTP_PROXY"; curl -sS --max-time 5 http://127.0.0.1:3128/')).stdout).toBe('proxy:\n')
  })

  test('a profile without any network has no loopback, no proxy and no ports, and works', async () => {
    await using session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session('closed', {
      ...{ profile: 'closed', capabilities: ['exec', 'fs_read', 'fs_write', 'ports'] },
    })
    const tried = await session.exec('echo "proxy:$HTTP_PROXY"; bash -c "exec 3<>/dev/tcp/127.0.0.1/9" 2>&1 | grep -om1 "not supported"')
    expect(tried.stdout).toBe('proxy:\nnot supported\n')
    await session.files.upload('a.txt', 'a')
    expect((await session.exec('cat a.txt')).stdout).toBe('a')
    await expect(session.ports.list()).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    await expect(session.ports.connect(8000)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    await expect(session.egress.set({ allow: ['*'] })).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    expect(await session.egress.get()).toMatchObject({ network: { requested: 'none', effective: 'none' } })
  })

  /** Why a program does not reach a host; names below `example` have no address. */
  const codeOf = async ({ exec }: Session, host: string): Promise<string> =>
    JSON.parse((await exec(`curl -sS http://${host}:80/`)).stdout).code

  test('[sandbox-sdk#844] a session replaces its policy while it runs, which a restart of its agent keeps, and takes it back', async () => {
    await using session = await open('changing', 'proxied')
    expect(await codeOf(session, 'a.example')).toBe('not_allowed')
    expect(await session.egress.get()).toMatchObject({
      network: { requested: 'proxy', effective: 'proxy' },
      source: 'profile',
      locked: false,
    })
    expect(await session.egress.set({ allow: ['*.example:80'] })).toMatchObject({
      source: 'session',
      policy: { allow: ['*.example:80'], deny: [] },
    })
    expect(await codeOf(session, 'a.example')).toBe('unresolvable')
    expect(await codeOf(session, 'www.evil.example')).toBe('unresolvable')

    await stack.agent().kill('SIGKILL')
    await stack.startAgent()
    expect(await codeOf(session, 'a.example')).toBe('unresolvable')

    expect(await session.egress.reset()).toMatchObject({ source: 'profile', policy: { deny: ['*.evil.example'] } })
    expect(await codeOf(session, 'www.evil.example')).toBe('denied')
    expect(await codeOf(session, 'a.example')).toBe('not_allowed')
  })

  test('a profile that is locked is narrowed alone, and its lists have their hosts', async () => {
    await using session = await open('held', 'held')
    expect((await session.egress.get()).policy?.allow).toEqual(LISTS.packages)
    await expect(session.egress.set({ allow: ['*'] })).rejects.toMatchObject({
      code: 'FORBIDDEN',
      message: expect.stringContaining('locked'),
    })
    expect(await session.egress.set({ allow: ['x.cdn.example'] })).toMatchObject({ locked: true, source: 'session' })
  })

  test('whoever follows a session hears of another policy', async () => {
    await using session = await open('told', 'network_basic')
    const events = session.events()
    expect(await session.egress.set({ deny: ['*'] })).toMatchObject({ network: { requested: 'on', effective: 'proxy' } })
    expect(await codeOf(session, 'a.example')).toBe('denied')
    for await (const event of events) {
      if (event.type !== 'egress.changed') continue
      expect(event.source).toBe('session')
      break
    }
  })
})
