import { BoxofficeError } from '@boxoffice/protocol'
import { describe, expect, test } from 'vitest'
import { always, newRuntime, unavailable } from './scripted-host.ts'

const SECOND = 1000

describe('the life of an MCP server', () => {
  test('[2-91, 2-94] is ready when it works; what is told of it has exactly these keys', async () => {
    const { runtime, host, clock } = newRuntime()
    clock.held = 5000
    expect(runtime.info().status).toBe('starting')
    runtime.start()
    await runtime.ready
    expect(runtime.info()).toEqual({
      status: 'connected',
      error_message: null,
      error_phase: null,
      retry_count: 0,
      tool_count: 1,
      tools: [{ name: 'greet', description: 'says hello' }],
      box_session_id: 'mcp-pipeline-default',
      box_enabled: true,
      warnings: [],
    })
    await runtime.stop(false)
    expect(runtime.info().status).toBe('stopped')
    expect([...host.lives, ...host.running]).toEqual([])
  })

  test.each([
    ['session_create', 'open'],
    ['dep_install', 'install'],
    ['process_start', 'start'],
  ] as const)(
    '[2-89, 2-90, 2-91, 2-93] a failure in %s is tried again after 2, 4 and 8 s, then it is over and nothing is left',
    async (phase, step) => {
      const { runtime, host, clock } = newRuntime()
      host.failures.set(step, always(new BoxofficeError('BACKEND_UNAVAILABLE', 'not now')))
      runtime.start()
      await runtime.ready
      expect(host.times('open')).toEqual([0, 2, 6, 14].map((at) => at * SECOND))
      expect(clock.sleeps.map(({ ms }) => ms)).toEqual([2, 4, 8].map((s) => s * SECOND))
      expect(runtime.info()).toMatchObject({
        status: 'error',
        error_phase: phase,
        retry_count: 3,
        error_message: 'Failed after 4 attempts: not now',
        tool_count: 0,
        tools: [],
      })
      await runtime.stop(false)
      expect([...host.lives, ...host.running]).toEqual([])
    },
  )

  test('[2-89] the phase of the last failure stays while the next attempt is waited for', async () => {
    const { runtime, host, clock } = newRuntime()
    host.failures.set('install', { error: new Error('no network'), times: 1 })
    clock.held = 2000
    runtime.start()
    while (clock.sleeps.length === 0) await new Promise(setImmediate)
    expect(runtime.info()).toMatchObject({ status: 'retrying', error_phase: 'dep_install', error_message: 'no network', retry_count: 1 })
    clock.held = 5000
    clock.pass()
    await runtime.ready
    expect(runtime.info()).toMatchObject({ status: 'connected', error_phase: null, retry_count: 1 })
    await runtime.stop(false)
  })

  test('[2-89, 2-92] a socket that cannot be had, of a process that has ended: relay_connect, with what it said', async () => {
    const { runtime, host } = newRuntime()
    host.failures.set('attach', always(new BoxofficeError('PROCESS_NOT_RUNNING', 'it has ended')))
    const start = host.start.bind(host)
    host.start = async (config) => {
      await start(config)
      host.end(7, 'no such module\n', false)
    }
    runtime.start()
    await runtime.ready
    expect(runtime.info()).toMatchObject({
      error_phase: 'relay_connect',
      error_message: 'Failed after 4 attempts: the server ended with exit code 7: no such module',
    })
    expect(host.times('attach')).toHaveLength(4)
    await runtime.stop(false)
  })

  test('[2-92] while the process lives a handshake that fails is a cold start: again each 2 s, and no retry is used', async () => {
    const { runtime, host, clock } = newRuntime()
    host.failures.set('attach', { error: new BoxofficeError('BACKEND_UNAVAILABLE', 'not yet'), times: 5 })
    clock.held = 5000
    runtime.start()
    await runtime.ready
    expect(host.times('attach')).toEqual([0, 2, 4, 6, 8, 10].map((at) => at * SECOND))
    expect(host.times('start')).toEqual([0])
    expect(runtime.info()).toMatchObject({ status: 'connected', retry_count: 0 })
    await runtime.stop(false)
  })

  test('[2-89, 2-92] a handshake that is refused until startup_timeout_sec is over: mcp_init', async () => {
    const { runtime, host } = newRuntime({ box: { startup_timeout_sec: 5 } })
    host.answer = (line) => {
      const { id } = JSON.parse(line) as { id?: number }
      return id === undefined ? null : JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32000, message: 'not ready' } })
    }
    runtime.start()
    await runtime.ready
    expect(runtime.info()).toMatchObject({ status: 'error', error_phase: 'mcp_init', error_message: expect.stringContaining('not ready') })
    // Within five seconds: at once, after two, after four; then it has failed, and the next attempt is two later.
    expect(host.times('attach').slice(0, 4)).toEqual([0, 2, 4, 6].map((at) => at * SECOND))
    expect(host.times('start')).toHaveLength(4)
    await runtime.stop(false)
  })

  test.each([
    ['its socket tells of it', true],
    ['only the poll finds it', false],
  ])('[2-89, 2-92] a server that ends: runtime, and it is back; %s', async (_how, tell) => {
    const { runtime, host, clock } = newRuntime()
    clock.held = 5000
    runtime.start()
    await runtime.ready
    const before = clock.now()
    clock.held = 2000
    host.end(1, 'Traceback', tell)
    if (!tell) clock.pass()
    while (runtime.info().status !== 'retrying') await new Promise(setImmediate)
    expect(runtime.info()).toMatchObject({
      error_phase: 'runtime',
      error_message: 'the server ended with exit code 1: Traceback',
      tools: [],
    })
    clock.held = 5000
    clock.pass()
    while (runtime.info().status !== 'connected') await new Promise(setImmediate)
    expect(clock.now() - before).toBe(tell ? 2000 : 7000)
    await runtime.stop(false)
    expect([...host.lives, ...host.running]).toEqual([])
  })

  test('[2-92] an agent that does not answer for a while is not a server that has ended', async () => {
    const { runtime, host, clock } = newRuntime()
    clock.held = 5000
    runtime.start()
    await runtime.ready
    const { process } = host
    const silent = Promise.withResolvers<void>()
    host.process = async () => {
      silent.resolve()
      throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent is restarting')
    }
    clock.pass()
    await silent.promise
    host.process = process
    await new Promise(setImmediate)
    expect(runtime.info()).toMatchObject({ status: 'connected', error_phase: null })
    await runtime.stop(false)
  })

  test('[2-90] a server that ran for long has all its retries again; one that dies at once has not', async () => {
    const { runtime, host, clock } = newRuntime()
    clock.held = 5000
    runtime.start()
    await runtime.ready
    // Each life is short: four of them, and it is over.
    const die = async () => {
      host.end(1, '', true)
      const lives = host.times('start').length
      while (runtime.info().status !== 'error' && !(host.times('start').length > lives && runtime.info().status === 'connected'))
        await new Promise(setImmediate)
    }
    for (let life = 0; life < 4; life++) await die()
    expect(runtime.info()).toMatchObject({ status: 'error', error_phase: 'runtime', retry_count: 3 })
    expect(host.times('open')).toEqual([0, 2, 6, 14].map((at) => at * SECOND))
    expect(clock.now()).toBe(14 * SECOND)
    await runtime.stop(false)

    const steady = newRuntime()
    steady.host.failures.set('open', { error: new Error('once'), times: 1 })
    steady.clock.held = 5000
    steady.runtime.start()
    await steady.runtime.ready
    for (let poll = 0; poll < 13; poll++) {
      const sleeps = steady.clock.sleeps.length
      steady.clock.pass()
      while (steady.clock.sleeps.length === sleeps) await new Promise(setImmediate)
    }
    steady.host.end(1, '', true)
    while (steady.runtime.info().status !== 'retrying') await new Promise(setImmediate)
    expect(steady.runtime.info().retry_count).toBe(1)
    await steady.runtime.stop(false)
  })

  test('[2-81] where nothing can run it that is known at once, costs no retry, and it begins when something is there', async () => {
    const { runtime, host, clock } = newRuntime()
    host.failures.set('open', { error: unavailable(), times: 20 })
    clock.held = 5000
    runtime.start()
    await runtime.ready
    expect(runtime.info()).toMatchObject({ status: 'unavailable', error_phase: 'session_create', retry_count: 0 })
    expect(runtime.info().error_message).toMatch(/^box_unavailable: /)
    while (runtime.info().status !== 'connected') await new Promise(setImmediate)
    expect(runtime.info()).toMatchObject({ error_phase: null, retry_count: 0 })
    await runtime.stop(false)
  })

  test('[2-89] a tool call that fails is told as tool_call until one succeeds; the server goes on', async () => {
    const { runtime, clock } = newRuntime()
    clock.held = 5000
    runtime.start()
    await runtime.ready
    runtime.toolCalled(new Error('the connection was closed'))
    expect(runtime.info()).toMatchObject({ status: 'connected', error_phase: 'tool_call', error_message: 'the connection was closed' })
    runtime.toolCalled()
    expect(runtime.info()).toMatchObject({ status: 'connected', error_phase: null, error_message: null })
    await runtime.stop(false)
  })

  test('[2-97] a server that prints its environment and dies tells nobody its values', async () => {
    const { runtime, host } = newRuntime({ env: { API_KEY: 'sk-canary-1' }, box: { env: { OTHER: 'canary-2' } } })
    const start = host.start.bind(host)
    host.failures.set('attach', always(new Error('closed')))
    host.start = async (config) => {
      await start(config)
      host.end(1, 'env: sk-canary-1 canary-2', false)
    }
    runtime.start()
    await runtime.ready
    expect(JSON.stringify(runtime.info())).not.toMatch(/canary/)
    expect(runtime.info().error_message).toContain('env: *** ***')
    await runtime.stop(false)
  })

  test('[2-93] one that is left for the next broker keeps process and sandbox; one that is stopped in the middle of its start keeps nothing', async () => {
    const kept = newRuntime()
    kept.clock.held = 5000
    kept.runtime.start()
    await kept.runtime.ready
    await kept.runtime.stop(true)
    expect([...kept.host.lives, ...kept.host.running]).toEqual(['a', 'a'])

    const cut = newRuntime()
    cut.host.failures.set('attach', always(new Error('not yet')))
    cut.clock.held = 2000
    cut.runtime.start()
    while (cut.clock.sleeps.length === 0) await new Promise(setImmediate)
    await cut.runtime.stop(false)
    expect([...cut.host.lives, ...cut.host.running]).toEqual([])
  })

  test('[0-44] with an agent that is only about to start it waits for it; one that is stopped meanwhile leaves its place', async () => {
    const { promise: agentStarted, resolve } = Promise.withResolvers<void>()
    const [waits, cut] = [newRuntime({}, agentStarted), newRuntime({}, agentStarted)]
    waits.clock.held = 5000
    waits.runtime.start()
    cut.runtime.start()
    await cut.runtime.stop(false)
    expect([cut.runtime.info().status, cut.host.calls, cut.host.lives.size]).toEqual(['stopped', ['leave'], 0])
    expect([waits.runtime.info().status, waits.host.calls]).toEqual(['starting', []])
    resolve()
    await waits.runtime.ready
    expect(waits.runtime.info()).toMatchObject({ status: 'connected', retry_count: 0 })
    await waits.runtime.stop(false)
  })
})
