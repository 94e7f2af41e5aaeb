import type { Capability, Revocations, SessionTokenClaims } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { until } from '../../support/processes.ts'
import { TestSocket } from '../../support/socket.ts'

let dp: TestDataplane
const ended = endedAfterEach()

beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

const seconds = (): number => Math.floor(Date.now() / 1000)

const connect = async (kind: 'exec' | 'shell', token: string, plane = dp): Promise<TestSocket> => {
  const socket = ended(new TestSocket(`${plane.wsBase}/${kind}/ws`, 'binary', { token }))
  await socket.frame('auth_ok')
  return socket
}

const anonymous = (): Promise<TestSocket> => ended(new TestSocket(`${dp.wsBase}/exec/ws`)).opened()

const codeOf = async (response: Response): Promise<string> => ((await response.json()) as { error: { code: string } }).error.code

/** What the broker pushes when it has narrowed an actor's rights. */
const narrow = (sub: string, caps: Capability[], before = seconds(), lasts = 600): Revocations => ({
  sessions: [],
  tokens: [],
  grants: [{ session_id: dp.sandbox.sessionId, sub, caps, before, until: before + lasts }],
})

/** An actor of its own, so that no test sees the narrowing of another. */
const actor = async (claims: Partial<SessionTokenClaims> = {}): Promise<{ sub: string; token: string }> => {
  const sub = crypto.randomUUID()
  return { sub, token: await dp.sign({ sub, ...claims }) }
}

describe('a session that ends', { tags: ['C-28', 'C-30', '4-37'] }, () => {
  test('a process that ignores TERM is killed after 5 s, within 7 s its socket has the exit, the error and 4410', async () => {
    const own = await TestDataplane.start()
    try {
      const busy = await connect('exec', own.token, own)
      busy.start({ command: "trap '' TERM; echo up; while :; do sleep 1; done" })
      await busy.until(() => busy.text() === 'up\n')
      const started = performance.now()
      const body = own.post('/exec', { command: "trap '' TERM; while :; do sleep 1; done" })
      await until('both run', () => own.sandbox.activity.running === 2)
      own.revocations.apply({
        sessions: [{ session_id: own.sandbox.sessionId, reason: 'hard_ttl', until: seconds() + 600 }],
        tokens: [],
      })
      expect((await busy.closed).code).toBe(4410)
      expect(performance.now() - started).toBeLessThan(60_000)
      expect(busy.find('exit')).toMatchObject({ reason: 'killed', kill_cause: 'expired', signal: 'SIGKILL' })
      expect(busy.frames.map(({ type }) => type).slice(-2)).toEqual(['exit', 'error'])
      expect(busy.find('error')?.error).toMatchObject({ code: 'SESSION_RELEASED', details: { reason: 'hard_ttl' } })
      const response = await body
      expect([response.status, await codeOf(response)]).toEqual([410, 'SESSION_EXPIRED'])
    } finally {
      await own[Symbol.asyncDispose]()
    }
  }, 120_000)

  test('a token that is revoked while its body comes in starts nothing that goes on', async () => {
    const { token } = await actor({ jti: 'revoked-on-the-way' })
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
    const answer = dp.fetch('/exec', {
      method: 'POST',
      token,
      headers: { 'Content-Type': 'application/json' },
      body: readable,
      duplex: 'half',
    } as RequestInit)
    const writer = writable.getWriter()
    await writer.write(Buffer.from('{"command":"sleep 60",'))
    await until('the request has been let in', () => dp.sandbox.activity.attached > 0)
    dp.revocations.apply({ sessions: [], tokens: [{ jti: 'revoked-on-the-way', until: seconds() + 600 }] })
    await writer.write(Buffer.from('"exec_id":"too-late"}'))
    await writer.close()
    const response = await answer
    expect([response.status, await codeOf(response)]).toEqual([410, 'SESSION_EXPIRED'])
    expect(await (await dp.fetch('/execs/too-late')).json()).toMatchObject({ state: 'exited', reason: 'killed', kill_cause: 'revoked' })
  })

  test('an end that overtakes the start of a process on its way to the supervisor kills it all the same', async () => {
    const own = await TestDataplane.start()
    try {
      const { link } = own.sandbox
      const open = link.open.bind(link)
      const call = link.call.bind(link)
      const overtaken = Promise.withResolvers<void>()
      link.open = async (...options) => {
        const channel = await open(...options)
        const send = channel.send.bind(channel)
        channel.send = (...frame) => void overtaken.promise.then(() => send(...frame))
        own.revocations.apply({ sessions: [{ session_id: own.sandbox.sessionId, reason: 'released', until: seconds() + 600 }], tokens: [] })
        return channel
      }
      link.call = (op, fields) => {
        const answer = call(op, fields)
        if (op === 'kill')
          answer.then(
            () => overtaken.resolve(),
            () => overtaken.resolve(),
          )
        return answer
      }
      const response = await own.post('/exec', { command: 'sleep 20' })
      expect([response.status, await codeOf(response)]).toEqual([410, 'SESSION_EXPIRED'])
      await until('its end is told', () => own.sandbox.facts.some(({ type }) => type === 'exec.exit'))
      expect(own.sandbox.facts.find(({ type }) => type === 'exec.exit')?.data).toMatchObject({ reason: 'killed', kill_cause: 'released' })
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })
})

describe('rights that are narrowed', { tags: ['C-57'] }, () => {
  test('tokens issued before lose them from a warm cache too, later ones and those of others do not', async () => {
    const before = seconds() - 10
    const { sub, token } = await actor({ iat: before })
    expect((await dp.fetch('/execs', { token })).status).toBe(200)
    dp.revocations.apply(narrow(sub, ['fs_read', 'shell'], before))
    expect(await codeOf(await dp.fetch('/execs', { token }))).toBe('CAPABILITY_DENIED')
    expect((await dp.fetch('/files', { token })).status).toBe(200)
    expect((await dp.fetch('/execs', { token: await dp.sign({ sub, iat: before + 1 }) })).status).toBe(200)
    expect((await dp.fetch('/execs', { token: await dp.sign({ sub, iat: before - 1 }) })).status).toBe(403)
    expect((await dp.fetch('/execs')).status).toBe(200)
    const socket = await connect('shell', token)
    expect(socket.find('auth_ok')).toMatchObject({ granted_capabilities: ['fs_read', 'shell'] })
  })

  test('two narrowings count together, and each only as long as it says', async () => {
    const { sub, token } = await actor({ iat: seconds() - 10 })
    dp.revocations.apply(narrow(sub, ['fs_read', 'exec'], seconds() - 5))
    // Seconds are whole: one that ends in a second may be over at the next look.
    dp.revocations.apply(narrow(sub, ['fs_read', 'shell'], seconds() - 4, 9))
    expect((await dp.fetch('/execs', { token })).status).toBe(403)
    await until('the second one is over', async () => (await dp.fetch('/execs', { token })).status === 200)
  })

  test('an idle socket is closed at once: error, 4403; a shell is none that lacks exec', async () => {
    const { sub, token } = await actor()
    const [exec, shell] = await Promise.all([connect('exec', token), connect('shell', token)])
    dp.revocations.apply(narrow(sub, ['shell']))
    expect((await exec.closed).code).toBe(4403)
    expect(exec.find('error')?.error).toMatchObject({ code: 'CAPABILITY_DENIED', details: { capability: 'exec' } })
    shell.start({})
    await shell.frame('ready')
  })

  test('a running process that nobody else uses is killed, its exit told, then error and 4403', async () => {
    const { sub, token } = await actor()
    const [shell, viewer] = [await connect('shell', token), await connect('shell', token)]
    shell.start({ argv: ['sh', '-c', 'echo up; sleep 60'], shell_id: `alone-${sub}` })
    await shell.until(() => shell.text().includes('up'))
    viewer.start({ attach: `alone-${sub}`, mode: 'viewer' })
    await viewer.frame('ready')
    dp.revocations.apply(narrow(sub, ['exec']))
    expect([(await shell.closed).code, (await viewer.closed).code]).toEqual([4403, 4403])
    expect(shell.find('exit')).toMatchObject({ reason: 'killed', kill_cause: 'revoked' })
    expect(shell.frames.map(({ type }) => type).slice(-2)).toEqual(['exit', 'error'])
    expect([shell.errorCode, viewer.errorCode]).toEqual(['CAPABILITY_DENIED', 'CAPABILITY_DENIED'])
  })

  test.each(['mirror', 'viewer'])('a shell that another actor is attached to as %s goes on', async (mode) => {
    const { sub, token } = await actor()
    const [mine, theirs] = [await connect('shell', token), await connect('shell', dp.token)]
    mine.start({ argv: ['sh', '-c', 'stty -echo; echo up; while read line; do echo got $line; done'], shell_id: `shared-${sub}` })
    await mine.until(() => mine.text().includes('up'))
    theirs.start({ attach: `shared-${sub}`, mode })
    await theirs.frame('ready')
    dp.revocations.apply(narrow(sub, ['fs_read']))
    expect((await mine.closed).code).toBe(4403)
    expect(mine.find('exit')).toBeUndefined()
    const writer = mode === 'mirror' ? theirs : await connect('shell', dp.token)
    if (writer !== theirs) writer.start({ attach: `shared-${sub}` })
    writer.stdin('it\n')
    await theirs.until(() => theirs.text().includes('got it'))
    writer.send({ type: 'close' })
    expect((await theirs.closed).code).toBe(1000)
  })

  test('an HTTP exec that runs is killed: 403 with what there is of its result', async () => {
    const { sub, token } = await actor()
    const answer = dp.post('/exec', { command: 'echo partial; sleep 60', exec_id: `http-${sub}` }, { token })
    await until('it runs', async () => (await (await dp.fetch(`/execs/http-${sub}/output?wait=1`)).text()) === 'partial\n')
    dp.revocations.apply(narrow(sub, ['fs_read']))
    const response = await answer
    expect(response.status).toBe(403)
    expect(await response.json()).toMatchObject({
      error: {
        code: 'CAPABILITY_DENIED',
        details: { capability: 'exec', result: { stdout: 'partial\n', reason: 'killed', kill_cause: 'revoked' } },
      },
    })
  })

  test('a revoked token closes 4401, and what another token uses goes on', { tags: ['C-30'] }, async () => {
    const { sub, token } = await actor({ jti: 'one-of-two' })
    const [mine, theirs] = [await connect('shell', token), await connect('shell', dp.token)]
    mine.start({ argv: ['sh', '-c', 'echo up; read x; echo got $x'], shell_id: `tokens-${sub}` })
    await mine.until(() => mine.text().includes('up'))
    theirs.start({ attach: `tokens-${sub}` })
    await theirs.frame('ready')
    dp.revocations.apply({ sessions: [], tokens: [{ jti: 'one-of-two', until: seconds() + 600 }] })
    expect((await mine.closed).code).toBe(4401)
    theirs.stdin('it\n')
    expect((await theirs.closed).code).toBe(1000)
    expect(theirs.text()).toContain('got it')
  })
})

describe('a token of an earlier incarnation', { tags: ['C-23', '2.5'] }, () => {
  test('HTTP 410 with its reason, a header 410, a frame error and 4410', async () => {
    const token = await dp.sign({ gen: 0 })
    const response = await dp.post('/exec', { command: 'true' }, { token })
    expect([response.status, await response.json()]).toMatchObject([
      410,
      { error: { code: 'SESSION_EXPIRED', details: { reason: 'incarnation' } } },
    ])
    expect(await new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token }).refused()).toMatchObject({
      status: 410,
      body: { error: { code: 'SESSION_EXPIRED', details: { reason: 'incarnation' } } },
    })
    const socket = await anonymous()
    socket.send({ type: 'auth', token })
    expect((await socket.closed).code).toBe(4410)
    expect(socket.find('error')?.error).toMatchObject({ code: 'SESSION_EXPIRED', details: { reason: 'incarnation' } })
  })
})
