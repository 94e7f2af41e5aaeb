import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { processesWith, until } from '../../support/processes.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

/** A number that no other test or run uses: it marks processes in the machine's list. */
const marker = (): string => `3${Math.floor(Math.random() * 1e7)}.${process.pid}`

describe('a client that goes away', { tags: ['C-29'] }, () => {
  /** Sends a request, and cuts it when the process runs. */
  const abandon = async (body: Record<string, unknown>, id: string): Promise<void> => {
    const sent = request(`${dp.base}/exec`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${dp.token}`, 'Content-Type': 'application/json' },
    })
    sent.on('error', () => {})
    sent.end(JSON.stringify(body))
    await until('it runs', () => processesWith(id).length > 0)
    sent.destroy()
  }

  test('without an id its process is killed within a second', async () => {
    const id = marker()
    await abandon({ argv: ['sleep', id] }, id)
    await until('it is killed', () => processesWith(id).length === 0)
    await until('it no longer counts', () => dp.sandbox.activity.running === 0)
  })

  test('with an id it lives on, and the next request gets its result', async () => {
    const id = marker()
    const body = { command: `echo a; read line < gate; echo "$line"; : sleep ${id}`, exec_id: 'gated' }
    await dp.exec({ command: 'mkfifo gate' })
    await abandon(body, id)
    const again = dp.exec(body)
    await dp.exec({ command: 'echo opened > gate' })
    expect(await again).toMatchObject({ stdout: 'a\nopened\n', exit_code: 0 })
  })

  test('with detach the answer is 202 at once and the process runs to its end', async () => {
    const response = await dp.post('/exec', { command: 'sleep 0.2; echo late', exec_id: 'detached', detach: true })
    expect([response.status, await response.json()]).toEqual([202, { exec_id: 'detached', state: 'running' }])
    await until('it has ended', async () => ((await (await dp.fetch('/execs/detached')).json()) as { state: string }).state === 'exited')
    expect(await (await dp.fetch('/execs/detached')).json()).toMatchObject({ stdout: 'late\n', exit_code: 0, reason: 'exited' })
    await until('it no longer counts', () => dp.sandbox.activity.running === 0)
  })
})

describe('execs', () => {
  test('list, one, signal', async () => {
    await dp.post('/exec', { argv: ['sleep', '60'], exec_id: 'listed', detach: true })
    const listed = (await (await dp.fetch('/execs?state=running')).json()) as { execs: { exec_id: string }[] }
    expect(listed.execs.find(({ exec_id }) => exec_id === 'listed')).toMatchObject({
      state: 'running',
      command: 'sleep 60',
      ended_at: null,
      exit_code: null,
      attached: 0,
    })
    expect(await (await dp.fetch('/execs/listed')).json()).toMatchObject({ state: 'running' })
    expect((await dp.post('/execs/listed/signal', { signal: 'SIGNONE' })).status).toBe(400)
    expect((await dp.post('/execs/listed/signal', { signal: 'SIGINT' })).status).toBe(204)
    await until('it has ended', async () => ((await (await dp.fetch('/execs/listed')).json()) as { state: string }).state === 'exited')
    expect(await (await dp.fetch('/execs/listed')).json()).toMatchObject({
      state: 'exited',
      signal: 'SIGINT',
      exit_code: 130,
      reason: 'signaled',
    })
    const response = await dp.post('/execs/listed/signal', { signal: 'INT' })
    expect([response.status, ((await response.json()) as { error: { code: string } }).error.code]).toEqual([409, 'PROCESS_NOT_RUNNING'])
    expect((await dp.fetch('/execs/unknown')).status).toBe(404)
    expect((await dp.fetch('/execs?state=exited')).status).toBe(200)
  })

  test('the preview of a long command is 400 characters', async () => {
    await dp.exec({ command: `: ${'😀'.repeat(3000)}`, exec_id: 'long' })
    const { command } = (await (await dp.fetch('/execs/long')).json()) as { command: string }
    expect(Array.from(command)).toHaveLength(400)
  })

  test('output by offset: pages, waiting, gap', async () => {
    await dp.post('/exec', { command: 'echo one; sleep 0.3; echo two >&1; echo err >&2', exec_id: 'paged', detach: true })
    let text = ''
    let offset = '0'
    let eof = 'false'
    while (eof === 'false') {
      const page = await dp.fetch(`/execs/paged/output?stream=stdout&offset=${offset}&limit=3&wait=5`)
      expect(page.headers.get('X-Stream-Offset')).toBe(offset)
      text += await page.text()
      offset = page.headers.get('X-Stream-Next-Offset') as string
      eof = page.headers.get('X-Stream-Eof') as string
    }
    expect(text).toBe('one\ntwo\n')
    expect(await (await dp.fetch('/execs/paged/output?stream=stderr')).text()).toBe('err\n')
    expect((await dp.fetch('/execs/paged/output?offset=999')).status).toBe(400)
    expect((await dp.fetch('/execs/paged/output?wait=31')).status).toBe(400)

    await dp.exec({ command: 'head -c 5000000 /dev/zero', exec_id: 'gap' })
    const old = await dp.fetch('/execs/gap/output?offset=0')
    const start = Number(old.headers.get('X-Stream-Offset'))
    expect(start).toBe(5_000_000 - 1024 * 1024)
    expect(old.headers.get('X-Stream-Gap')).toBe(`0-${start}`)
    expect((await old.arrayBuffer()).byteLength).toBe(1024 * 1024)
  })

  test('at most max_execs at once; joining one that runs is not another', { tags: ['C-64'] }, async () => {
    const own = await TestDataplane.start({ profile: { max_execs: 3 } })
    try {
      for (let i = 0; i < 3; i++)
        expect((await own.post('/exec', { argv: ['sleep', '60'], exec_id: `s${i}`, detach: true })).status).toBe(202)
      const refused = await own.post('/exec', { command: 'true' })
      expect([refused.status, refused.headers.get('Retry-After')]).toEqual([429, '1'])
      expect((await own.post('/exec', { argv: ['sleep', '60'], exec_id: 's0', detach: true })).status).toBe(202)
      await own.post('/execs/s0/signal', { signal: 'KILL' })
      await until('there is room', async () => (await own.post('/exec', { command: 'true' })).status === 200)
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })
})

describe('the session ends while it runs', { tags: ['C-28'] }, () => {
  test.each([
    ['released', 'released'],
    ['hard_ttl', 'expired'],
  ] as const)('%s: 410 with the partial result', async (reason, cause) => {
    const own = await TestDataplane.start()
    try {
      const running = own.post('/exec', { command: 'echo partial; sleep 60', exec_id: 'ends' })
      await until('it has said something', async () => (await own.fetch('/execs/ends/output')).headers.get('X-Stream-Next-Offset') === '8')
      own.revocations.apply({ sessions: [{ session_id: own.sandbox.sessionId, reason, until: Date.now() / 1000 + 600 }], tokens: [] })
      const response = await running
      const { error } = (await response.json()) as { error: { code: string; details: object } }
      expect([response.status, error.code]).toEqual([410, 'SESSION_EXPIRED'])
      expect(error.details).toMatchObject({
        reason: cause,
        result: { stdout: 'partial\n', reason: 'killed', kill_cause: cause, exit_code: 143 },
      })
      const next = await own.post('/exec', { command: 'true' })
      expect([next.status, ((await next.json()) as { error: { details: object } }).error.details]).toEqual([401, { reason }])
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })
})

test('after an agent restart everything is found again', { tags: ['C-64'] }, async () => {
  const own = await TestDataplane.start()
  try {
    await own.post('/exec', { command: 'echo before; sleep 0.5; echo after', exec_id: 'kept', detach: true })
    await own.sandbox.relink()
    await until('it has ended', async () => ((await (await own.fetch('/execs/kept')).json()) as { state: string }).state === 'exited')
    expect(await own.exec({ command: 'echo before; sleep 0.5; echo after', exec_id: 'kept', detach: false })).toMatchObject({
      stdout: 'before\nafter\n',
    })
  } finally {
    await own[Symbol.asyncDispose]()
  }
})
