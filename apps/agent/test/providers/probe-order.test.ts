import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { providerCandidates } from '../../src/providers/candidates.ts'
import { dockerCandidates } from '../../src/providers/docker/candidates.ts'
import { createProviderSelector } from '../../src/providers/provider-selector.ts'
import { silent } from '../host/support/host.ts'

let directory: string
let engines: Server[]
let environment: Record<string, string | undefined>

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bxo-probe-'))
  engines = []
  environment = { XDG_RUNTIME_DIR: process.env.XDG_RUNTIME_DIR, DOCKER_HOST: process.env.DOCKER_HOST, PATH: process.env.PATH }
  process.env.XDG_RUNTIME_DIR = directory
  delete process.env.DOCKER_HOST
})
afterEach(async () => {
  for (const engine of engines) engine.close()
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
  await rm(directory, { recursive: true, force: true })
})

/** Answers what the provider asks an engine at first, and counts how often it was asked. */
const startEngine = async (path: string) => {
  let asked = 0
  const server = createServer((request, response) => {
    asked++
    response.setHeader('content-type', 'application/json')
    response.end(request.url?.includes('/_ping') ? 'OK' : JSON.stringify({ Runtimes: { runc: {} }, ApiVersion: '1.41', Id: 'x' }))
  })
  await mkdir(join(path, '..'), { recursive: true })
  server.listen(path)
  await once(server, 'listening')
  engines.push(server)
  return { asked: () => asked }
}

const options = () => ({
  ...{ provider: 'auto' as const, isolation: 'auto' as const, sameUser: false, unsafeRefused: null, dockerHost: undefined },
  kubernetes: { imagePullPolicy: 'IfNotPresent' as const, runtimeClasses: [] },
  ...{ dataDirectory: directory, installId: 'feed000000000000', instanceId: '0123456789ab', defaultImage: 'some/image:1', log: silent },
})

describe('[2-32] the order in which a provider is looked for', () => {
  test('a Podman socket, the Docker socket, then what needs no engine', () => {
    expect(providerCandidates(options()).map(({ name, address }) => [name, address])).toEqual([
      ['Podman', `unix://${directory}/podman/podman.sock`],
      ['Podman', 'unix:///run/podman/podman.sock'],
      ['Docker', 'unix:///var/run/docker.sock'],
      ['local', undefined],
    ])
  })

  test('what is named explicitly, or by DOCKER_HOST, is the only engine that is tried', () => {
    expect(dockerCandidates({ ...options(), dockerHost: 'unix:///own.sock' }).map(({ address }) => address)).toEqual(['unix:///own.sock'])
    process.env.DOCKER_HOST = 'unix:///from-environment.sock'
    expect(dockerCandidates(options()).map(({ address }) => address)).toEqual(['unix:///from-environment.sock'])
  })

  test('the first that answers wins, and none after it is asked', async () => {
    const podman = await startEngine(join(directory, 'podman', 'podman.sock'))
    const selector = createProviderSelector(providerCandidates(options()), silent)
    expect(await selector.look()).toBe(true)
    expect(selector.report()).toMatchObject({ name: 'docker', available: true })
    expect(podman.asked()).toBeGreaterThan(0)
    await selector.close()
  })

  test('an engine that is away is passed over; where none is left, each has said why', async () => {
    const nowhere = { ...options(), dockerHost: `unix://${directory}/none.sock` }
    const local = createProviderSelector(providerCandidates(nowhere), silent)
    expect(await local.look()).toBe(true)
    expect(local.report()).toMatchObject({ name: 'local', available: true })
    await local.close()
    const none = createProviderSelector(providerCandidates({ ...nowhere, provider: 'docker' }), silent)
    expect(await none.look()).toBe(false)
    expect(none.report()).toMatchObject({ available: false, reason: expect.stringContaining('no such socket') })
    await none.close()
  })
})

describe('where bubblewrap is not installed', () => {
  const looksThrice = async (unsafeRefused: string | null) => {
    process.env.PATH = directory
    const lines: { level: number; msg: string; reason?: string }[] = []
    const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) })
    const selector = createProviderSelector(providerCandidates({ ...options(), provider: 'local', unsafeRefused, log }), log)
    const found = [await selector.look(), await selector.look(), await selector.look()]
    await selector.close()
    return { found, warnings: lines.filter(({ level }) => level >= 40) }
  }

  test('what is refused is said once, however often it is looked for, and not that something runs without isolation', async () => {
    const { found, warnings } = await looksThrice('others can reach it')
    expect(found).toEqual([false, false, false])
    expect(warnings).toEqual([expect.objectContaining({ msg: 'no provider is available', reason: 'local: others can reach it' })])
  })

  test('what is allowed is warned of once', async () => {
    const { found, warnings } = await looksThrice(null)
    expect(found).toEqual([true, true, true])
    expect(warnings).toEqual([expect.objectContaining({ msg: expect.stringContaining('ISOLATION IS "none"') })])
  })
})
