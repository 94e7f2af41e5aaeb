import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { access, constants, statfs } from 'node:fs/promises'
import { request } from 'node:http'
import { createServer } from 'node:net'
import { dirname, resolve } from 'node:path'
import { promisify } from 'node:util'
import { DEFAULT_BROKER_URL } from '../settings/connection.ts'
import { defaultDataDir } from '../settings/data-dir.ts'
import type { Check } from './check.ts'
import { checkBroker } from './check-broker.ts'
import { checkCapacity } from './check-capacity.ts'

export type DoctorOptions = { provider: 'auto' | 'docker' | 'local'; dataDir?: string | undefined; broker?: string | undefined }

const run = promisify(execFile)
const ENGINE_WITHIN_MS = 5_000
const CLOCK_DRIFT_MS = 5_000
const FREE_BYTES = 1024 ** 3

/** Every check, in the order in which a person would fix them. None changes anything. */
export const runChecks = async ({ provider, dataDir, broker }: DoctorOptions): Promise<Check[]> => {
  const brokerUrl = broker ?? process.env.BOXOFFICE_URL ?? DEFAULT_BROKER_URL
  return await Promise.all([
    ...(provider === 'local' ? [] : [checkEngine()]),
    ...(provider === 'docker' ? [] : [checkBubblewrap()]),
    checkSupervisor(),
    checkPort('broker', 7070),
    checkPort('agent', 7071),
    checkBroker(brokerUrl),
    checkClock(brokerUrl),
    checkDisk(dataDir ?? process.env.BOXOFFICE_DATA_DIR ?? defaultDataDir()),
    checkCapacity(),
  ])
}

const ok = (name: string, message: string): Check => ({ name, ok: true, message })
const fail = (name: string, message: string): Check => ({ name, ok: false, message })

const checkEngine = async (): Promise<Check> => {
  const addresses = engineAddresses()
  for (const address of addresses) {
    const answer = await engineVersion(address)
    if (answer !== undefined) return ok('engine', `${answer} at ${address}`)
  }
  const start = 'start Docker or Podman (`systemctl start docker`), or use --provider local'
  return fail(
    'engine',
    addresses.length === 0
      ? `no Docker or Podman socket found: install one, or use --provider local`
      : `no answer at ${addresses.join(', ')}: ${start}`,
  )
}

const engineAddresses = (): string[] => {
  const { DOCKER_HOST, XDG_RUNTIME_DIR } = process.env
  if (DOCKER_HOST) return [DOCKER_HOST]
  const sockets = [...(XDG_RUNTIME_DIR ? [`${XDG_RUNTIME_DIR}/podman/podman.sock`] : []), '/run/podman/podman.sock', '/var/run/docker.sock']
  return sockets.filter((path) => existsSync(path)).map((path) => `unix://${path}`)
}

/** Name and version of the engine that answers at `address`, else undefined. */
const engineVersion = (address: string): Promise<string | undefined> =>
  new Promise((done) => {
    const url = address.startsWith('unix://') ? undefined : URL.parse(address.replace(/^tcp:/, 'http:'))
    const target = url ? { host: url.hostname, port: url.port } : { socketPath: address.replace(/^unix:\/\//, '') }
    const call = request({ ...target, path: '/version', signal: AbortSignal.timeout(ENGINE_WITHIN_MS) }, (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      response.on('error', () => done(undefined)).on('end', () => done(describeEngine(body)))
    })
    call.on('error', () => done(undefined)).end()
  })

const describeEngine = (body: string): string | undefined => {
  try {
    const { Version, Platform } = JSON.parse(body) as { Version?: string; Platform?: { Name?: string } }
    return Version === undefined ? undefined : `${Platform?.Name || 'engine'} ${Version}`
  } catch {
    return undefined
  }
}

const checkBubblewrap = async (): Promise<Check> => {
  try {
    const { stdout } = await run('bwrap', ['--version'])
    await run('bwrap', ['--unshare-all', '--ro-bind', '/', '/', 'true'])
    return ok('bwrap', stdout.trim())
  } catch (error) {
    const { code, stderr } = error as { code?: unknown; stderr?: string }
    if (code === 'ENOENT') return fail('bwrap', 'not installed: apt-get install bubblewrap (or your system’s equal)')
    return fail(
      'bwrap',
      `does not work here (${stderr?.trim().split('\n')[0] ?? String(code)}): allow user namespaces, or use --provider docker`,
    )
  }
}

const checkSupervisor = async (): Promise<Check> => {
  const { SHIPPED_SUPERVISORS } = await import('@boxoffice/agent')
  const path = SHIPPED_SUPERVISORS.find((candidate) => existsSync(candidate)) ?? 'supervisor'
  try {
    await access(path, constants.X_OK)
    const { stdout } = await run(path, ['--version'])
    return ok('supervisor', stdout.trim())
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    return fail('supervisor', `${missing ? 'not built' : 'does not run'}: npm run setup`)
  }
}

const checkPort = async (part: 'broker' | 'agent', port: number): Promise<Check> => {
  const name = `port ${port}`
  if (await isFree(port)) return ok(name, `free for the ${part}`)
  if (await isHealthy(`http://127.0.0.1:${port}`)) return ok(name, `a Boxoffice ${part} answers`)
  return fail(name, `in use by another program: stop it, or choose another with --${part === 'broker' ? 'port' : 'agent-port'}`)
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((done) => {
    const server = createServer()
    server.once('error', () => done(false))
    server.listen(port, '127.0.0.1', () => server.close(() => done(true)))
  })

const isHealthy = async (url: string): Promise<boolean> => {
  try {
    return (await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(2_000) })).ok
  } catch {
    return false
  }
}

/** Against the broker, whose clock decides; HTTP tells whole seconds, so half of one is the best guess. */
const checkClock = async (brokerUrl: string): Promise<Check> => {
  const sent = Date.now()
  let date: string | null
  try {
    date = (await fetch(`${brokerUrl}/healthz`, { signal: AbortSignal.timeout(2_000) })).headers.get('date')
  } catch {
    return ok('clock', `no broker at ${brokerUrl} to compare with`)
  }
  if (date === null) return ok('clock', `${brokerUrl} does not tell its time`)
  const drift = Date.parse(date) + 500 - (sent + Date.now()) / 2
  const shown = `${(Math.abs(drift) / 1000).toFixed(1)} s ${drift < 0 ? 'ahead of' : 'behind'} ${brokerUrl}`
  if (Math.abs(drift) <= CLOCK_DRIFT_MS) return ok('clock', `within ${CLOCK_DRIFT_MS / 1000} s of ${brokerUrl}`)
  return fail('clock', `${shown}: synchronise it (timedatectl set-ntp true)`)
}

const checkDisk = async (dataDir: string): Promise<Check> => {
  let place = resolve(dataDir)
  while (!existsSync(place) && dirname(place) !== place) place = dirname(place)
  const { bavail, bsize } = await statfs(place)
  const free = bavail * bsize
  const shown = `${(free / 1024 ** 3).toFixed(1)} GiB free for ${dataDir}`
  if (free < FREE_BYTES) return fail('disk', `${shown}: make room, at least 1 GiB`)
  try {
    await access(place, constants.W_OK)
    return ok('disk', shown)
  } catch {
    return fail('disk', `${place} cannot be written: choose another with --data-dir`)
  }
}
