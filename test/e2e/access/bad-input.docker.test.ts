import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane, request } from '../support/api.ts'
import { containersOf, type StoppableEngine, stoppableEngine } from '../support/engine.ts'
import { type Program, startProgram } from '../support/program.ts'
import { expectRefusal } from '../support/refusal.ts'
import { eventually } from '../support/traces.ts'

const IMAGE = 'registry.invalid/no/such-image:1'

describe('docker: an engine that is down, an image that is missing', () => {
  let directory: string
  let engine: StoppableEngine
  let program: Program
  let broker: ReturnType<typeof brokerApi>
  let installId: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'bxo-engine-'))
    const config = join(directory, 'config.json')
    await writeFile(config, JSON.stringify({ profiles: [{ name: 'imageless', image: IMAGE }] }))
    const socket = join(directory, 'engine')
    engine = stoppableEngine(socket)
    program = await startProgram(
      [
        ...['up', '--port', '0', '--agent-port', '0', '--provider', 'docker', '--destroy-on-exit'],
        ...['--data-dir', join(directory, 'data'), '--config', config],
      ],
      { DOCKER_HOST: `unix://${socket}` },
    )
    broker = brokerApi(program.ready.broker_url, program.ready.api_key)
    installId = await readFile(join(directory, 'data', 'agent', 'install-id'), 'utf8')
  })
  afterAll(async () => {
    await program?.stop()
    await engine?.[Symbol.asyncDispose]()
    expect(containersOf(installId)).toEqual([])
    await rm(directory, { recursive: true, force: true })
  })

  const readiness = () => request(`${program.ready.broker_url}/readyz`)
  const live = async () => ((await broker.get('/v1/sandbox/sessions')).body as { sessions: { id: string }[] }).sessions
  const isReady = (ready: boolean) =>
    eventually(`readyz is ${ready ? 200 : 503}`, async () => (await readiness()).status === (ready ? 200 : 503))

  test('[4-14] the product starts without an engine, says what is missing, makes nothing, and works when it comes', async () => {
    expect(program.ready).toMatchObject({ provider: null, isolation: null })
    expect((await request(`${program.ready.broker_url}/healthz`)).status).toBe(200)
    expect(expectRefusal(await readiness(), 503, 'BACKEND_UNAVAILABLE').message).toMatch(/engine of DOCKER_HOST: /)
    const refused = await broker.negotiate({ thread_id: 'early', mode: 'ensure' }, { 'idempotency-key': 'early' })
    expect(expectRefusal(refused, 503, 'PROVIDER_UNAVAILABLE').message).toMatch(/no agent has an available provider/)
    expect(await live()).toEqual([])
    expect((await broker.negotiate({ thread_id: 'early', mode: 'get' })).status).toBe(404)

    await engine.up()
    await isReady(true)
    const again = await broker.negotiate({ thread_id: 'early', mode: 'ensure' }, { 'idempotency-key': 'early' })
    expect(again.status).toBe(200)
  })

  test('[4-14] an engine that stops: live sandboxes serve on, new ones are refused and leave nothing; it comes back', async () => {
    const grant = await broker.ensure('early')
    await engine.down()
    const refused = await broker.negotiate({ thread_id: 'late', mode: 'ensure' })
    expectRefusal(refused, 503, 'PROVIDER_UNAVAILABLE')
    expect((await dataplane(grant, 'POST', '/exec', { command: 'echo on' })).body).toMatchObject({ stdout: 'on\n' })
    await isReady(false)
    expectRefusal(await broker.negotiate({ thread_id: 'late', mode: 'ensure' }), 503, 'PROVIDER_UNAVAILABLE')
    expect((await live()).map(({ id }) => id)).toEqual([grant.session_id])
    expect(containersOf(installId)).toHaveLength(1)

    await engine.up()
    await isReady(true)
    const late = await broker.ensure('late')
    expect((await dataplane(late, 'POST', '/exec', { command: 'echo late' })).body).toMatchObject({ stdout: 'late\n' })
    expect((await broker.ensure('early')).session_id).toBe(grant.session_id)
  })

  test('an image that is nowhere: 503 that names it and what to do; other profiles work; nothing is left', async () => {
    await broker.ensure('fine')
    const containers = containersOf(installId).toSorted()
    const before = await live()
    const refused = await broker.negotiate({ thread_id: 'none', mode: 'ensure', profile: 'imageless' })
    expect(expectRefusal(refused, 503, 'PROVIDER_UNAVAILABLE').message).toContain(`image "${IMAGE}" is not on this host`)
    expect(await live()).toEqual(before)
    expect(containersOf(installId).toSorted()).toEqual(containers)
    const usable = await broker.ensure('none', { profile: 'default' })
    expect((await dataplane(usable, 'POST', '/exec', { command: 'echo usable' })).body).toMatchObject({ stdout: 'usable\n' })
  })
})
