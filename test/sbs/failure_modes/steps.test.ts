import { existsSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { longTime, processesWith, sbsClient } from '../support/client.ts'
import { type SbsServer, startSbs } from '../support/server.ts'

let server: SbsServer
let sbs: ReturnType<typeof sbsClient>
let id: string

beforeAll(async () => {
  server = await startSbs({ env: { SBS_STEP_TIMEOUT_SEC: '1' } })
  sbs = sbsClient(server.url)
})
beforeEach(async () => {
  id = await sbs.create()
})
afterAll(() => server[Symbol.asyncDispose]())

const noneWith = (text: string) => expect.poll(() => processesWith(text), { timeout: 60_000 }).toEqual([])
const someWith = (text: string) => expect.poll(() => processesWith(text).length, { timeout: 60_000 }).toBeGreaterThan(0)
const sandboxOf = (session: string) =>
  String(server.log().find(({ event, session_id }) => event === 'session_created' && session_id === session)?.sandbox)

describe('timeout', () => {
  test('[3-13, 3-14, 3-43] 124 within three seconds, the whole group killed, and the session stays usable', async () => {
    const time = longTime()
    const started = performance.now()
    const { output, error, exit_code } = await sbs.bash(id, `sleep ${time} & sleep ${time}`)
    expect(performance.now() - started).toBeLessThan(30_000)
    expect([output, error, exit_code]).toEqual(['', 'the step timed out after 1 s and was killed', 124])
    await noneWith(time)
    expect(await sbs.bash(id, 'echo usable')).toEqual({ output: 'usable\n', error: '', exit_code: 0 })
    expect(server.log().find(({ event, session_id }) => event === 'execution_failed' && session_id === id)).toMatchObject({
      exit_code: 124,
    })
  })

  test('[3-15] an infinite loop of Python ends', async () => {
    const { error, exit_code } = await sbs.python(id, 'while True: pass')
    expect(exit_code).toBe(124)
    expect(error).toContain('timed out')
  })

  test('[3-13] a step that does not mind TERM ends all the same', async () => {
    const time = longTime()
    const { exit_code } = await sbs.bash(id, `trap '' TERM INT HUP; while :; do sleep ${time}; done`)
    expect(exit_code).toBe(124)
    await noneWith(time)
  })

  test('[3-16] what was said before is returned', async () => {
    const { output, error, exit_code } = await sbs.bash(id, `echo so far; echo and here >&2; sleep ${longTime()}`)
    expect([output, exit_code]).toEqual(['so far\n', 124])
    expect(error).toBe('and here\nthe step timed out after 1 s and was killed')
  })
})

describe('crash', () => {
  test('[3-21] a step that kills itself is a result', async () => {
    const { status, body } = await sbs.post(id, { sandbox_id: id, type: 'bash', payload: { cmd: 'echo last words; kill -9 $$' } })
    expect(status).toBe(200)
    expect(body).toEqual({ output: 'last words\n', error: 'the step was killed by SIGKILL', exit_code: 137 })
    expect(await sbs.bash(id, 'echo alive')).toEqual({ output: 'alive\n', error: '', exit_code: 0 })
  })

  test('[3-21] without its working directory the next step is 126 and says so', async () => {
    expect(await sbs.bash(id, 'rm -r "$PWD"')).toEqual({ output: '', error: '', exit_code: 0 })
    for (const run of [() => sbs.bash(id, 'echo no'), () => sbs.python(id, 'print(1)')]) {
      const { output, error, exit_code } = await run()
      expect([output, exit_code]).toEqual(['', 126])
      expect(error).toContain('the working directory of the session is gone')
    }
    expect((await sbs.close(id)).status).toBe(204)
  })

  test('[3-21, 3-64] a sandbox that is killed by its own step: a result, then no session and nothing left', async () => {
    const directory = (await sbs.bash(id, 'pwd')).output.trim()
    const time = longTime()
    const { status, body } = await sbs.post(id, {
      sandbox_id: id,
      type: 'bash',
      payload: { cmd: `sleep ${time} & kill -9 $PPID; wait` },
    })
    expect(status).toBe(200)
    expect(body).toMatchObject({ exit_code: 137, error: expect.stringMatching(/crashed|closed/) })
    await expect.poll(async () => (await sbs.close(id)).status, { timeout: 60_000 }).toBe(404)
    await noneWith(time)
    await expect.poll(() => existsSync(directory), { timeout: 60_000 }).toBe(false)
  })
})

describe('close', () => {
  let patient: SbsServer
  let client: ReturnType<typeof sbsClient>
  beforeAll(async () => {
    patient = await startSbs()
    client = sbsClient(patient.url)
  })
  afterAll(() => patient[Symbol.asyncDispose]())

  test('[3-20] DELETE ends a running step within three seconds; the step answers 137 with an error; nothing is left', async () => {
    const session = await client.create()
    const directory = (await client.bash(session, 'pwd')).output.trim()
    const time = longTime()
    const step = client.bash(session, `echo begun; sleep ${time}`)
    await someWith(time)
    const started = performance.now()
    const closed = await client.close(session)
    expect(closed.status).toBe(204)
    expect(performance.now() - started).toBeLessThan(30_000)
    const { error, exit_code } = await step
    expect([error, exit_code]).toEqual(['the step was killed: the session was closed', 137])
    await noneWith(time)
    expect(existsSync(directory)).toBe(false)
  })

  test('[3-20] a step that does not mind TERM, its children in groups of their own, and steps that wait for their turn', async () => {
    const session = await client.create()
    const time = longTime()
    const running = client.bash(session, `trap '' TERM; setsid sleep ${time} & (trap '' TERM; sleep ${time}); sleep ${time}`)
    await someWith(time)
    const waiting = client.post(session, { sandbox_id: session, type: 'bash', payload: { cmd: 'echo late' } })
    const started = performance.now()
    expect((await client.close(session)).status).toBe(204)
    expect(performance.now() - started).toBeLessThan(30_000)
    expect((await running).exit_code).toBe(137)
    expect((await waiting).status).toBe(404)
    await noneWith(time)
  })

  test('[3-20, 3-64] children that steps left in the background end with the session, not before', async () => {
    const session = await client.create()
    const time = longTime()
    await client.bash(session, `setsid sleep ${time} >/dev/null 2>&1 & sleep ${time} >/dev/null 2>&1 & echo left`)
    await someWith(time)
    expect((await client.bash(session, 'echo still here')).output).toBe('still here\n')
    expect(processesWith(time)).toHaveLength(2)
    expect((await client.close(session)).status).toBe(204)
    await noneWith(time)
  })

  test('[3-18, 3-19] closed twice at once: one 204, one 404, and steps are 404 from then on', async () => {
    const session = await client.create()
    const both = await Promise.all([client.close(session), client.close(session)])
    expect(both.map(({ status }) => status).sort()).toEqual([204, 404])
    expect((await client.post(session, { sandbox_id: session, type: 'bash', payload: { cmd: 'true' } })).status).toBe(404)
  })
})

test('[3-64] a closed session leaves no directory of its sandbox', async () => {
  await sbs.bash(id, 'mkdir -p a/b; echo x >a/b/c; chmod 000 a')
  const sandbox = sandboxOf(id)
  expect((await sbs.close(id)).status).toBe(204)
  const [directory] = await server.leftovers()
  for (const kind of ['workspaces', 'sandboxes'])
    expect(existsSync(`${server.temporary}/${directory}/agent/${kind}/${sandbox}`)).toBe(false)
})
