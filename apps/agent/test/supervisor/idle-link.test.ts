import { once } from 'node:events'
import { expect, test } from 'vitest'
import { AwakeLinks } from '../../src/supervisor/awake-links.ts'
import { run, start } from '../host/support/exec.ts'
import { eventually } from '../support/eventually.ts'
import { FakeSupervisor, socketsOf, withLink } from '../support/fake-supervisor.ts'
import { SUPERVISOR, TestSandbox } from '../support/sandbox.ts'

const IDLE_MS = 100
const LISTENER_AND_CONTROL = 2
const SPARE = 1

const idle = (directory: string, left = 1): Promise<void> => eventually(() => expect(socketsOf(directory)).toBe(left))

const startIdle = async (): Promise<TestSandbox> => {
  const sandbox = await TestSandbox.start({}, SUPERVISOR, { idleMs: IDLE_MS })
  await idle(sandbox.directory)
  return sandbox
}

test('an idle sandbox costs the agent one descriptor, and runs what is asked of it then', async () => {
  await using sandbox = await startIdle()
  for (const word of ['once', 'again']) {
    expect(await run(sandbox, `echo ${word}`)).toMatchObject({ stdout: `${word}\n`, code: 0 })
    expect(socketsOf(sandbox.directory)).toBeGreaterThan(1)
    await idle(sandbox.directory)
  }
})

test('20 commands at once in an idle sandbox all answer', async () => {
  await using sandbox = await startIdle()
  const numbers = Array.from({ length: 20 }, (_, i) => i)
  const ran = await Promise.all(numbers.map((i) => run(sandbox, `echo ${i}`)))
  expect(ran.map(({ stdout, code }) => [stdout, code])).toEqual(numbers.map((i) => [`${i}\n`, 0]))
  await idle(sandbox.directory)
})

test('a command that goes on keeps its own connection alone, and ends as any other', async () => {
  await using sandbox = await startIdle()
  const long = await start(sandbox.link, 'while [ ! -e over ]; do sleep 0.05; done; echo over')
  await idle(sandbox.directory, 2)
  expect((await run(sandbox, 'touch over; echo beside')).stdout).toBe('beside\n')
  expect(await long.ended).toMatchObject({ stdout: 'over\n', code: 0 })
  await idle(sandbox.directory)
})

test('with few descriptors the sandbox that was used first rests before its time, and what it runs goes on', async () => {
  const options = { idleMs: 600_000, awake: new AwakeLinks(0) }
  const sandboxes: TestSandbox[] = []
  try {
    while (sandboxes.length < 5) sandboxes.push(await TestSandbox.start({}, SUPERVISOR, options))
    const [first, ...others] = sandboxes as [TestSandbox, ...TestSandbox[]]
    const long = await start(first.link, 'cat over; while [ ! -e over ]; do sleep 0.05; done; echo over')
    for (const sandbox of others) expect((await run(sandbox, 'echo there')).stdout).toBe('there\n')
    await idle(first.directory, 2)
    for (const sandbox of others) expect(socketsOf(sandbox.directory)).toBeGreaterThan(LISTENER_AND_CONTROL)
    expect((await run(first, 'touch over; echo beside')).stdout).toBe('beside\n')
    expect((await long.ended).stdout).toBe('over\n')
  } finally {
    for (const sandbox of sandboxes) await sandbox[Symbol.asyncDispose]()
  }
})

test('an agent that starts again finds a sandbox that was idle', async () => {
  await using sandbox = await startIdle()
  await sandbox.relink()
  expect((await run(sandbox, 'echo there')).stdout).toBe('there\n')
})

test('a supervisor of before, which does not say that it keeps spares, keeps them always and is never told', () =>
  withLink({ idleMs: IDLE_MS }, async (link, directory) => {
    const old = new FakeSupervisor(directory)
    try {
      await eventually(() => expect(old.welcomes).toMatchObject([{ spare: SPARE }]))
      for (let number = 1; number <= SPARE; number++) old.channel(number)
      await idle(directory, LISTENER_AND_CONTROL + SPARE)
      // One that knows of it has let go of its own in the same time.
      await using newer = await startIdle()
      expect(newer.link.connected).toBe(true)
      expect(socketsOf(directory)).toBe(LISTENER_AND_CONTROL + SPARE)
      expect((await run({ link }, 'true')).code).toBe(0)
      expect(old.asked).toEqual([])
    } finally {
      old.end()
    }
  }))

test('a supervisor whose control connection breaks while it is idle can dial again', () =>
  withLink({ idleMs: IDLE_MS }, async (link, directory) => {
    const first = new FakeSupervisor(directory, { spares: true })
    await eventually(() => expect(first.asked).toEqual([{ n: 0 }]))
    await idle(directory)
    first.control.destroy()
    await once(first.control, 'close')
    await eventually(() => expect(link.connected).toBe(false))
    const secret = first.welcomes[0]?.secret
    const second = new FakeSupervisor(directory, { spares: true, secret })
    try {
      await eventually(() => expect(second.welcomes).toEqual([{ spare: 0 }]))
      await idle(directory)
      const ran = run({ link }, 'true')
      await eventually(() => expect(second.asked).toEqual([{ n: SPARE }]))
      second.welcomes[0] = { secret }
      second.channel(1)
      expect((await ran).code).toBe(0)
    } finally {
      second.end()
    }
  }))
