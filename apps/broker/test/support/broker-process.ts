import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { caller } from './test-broker.ts'

const BOXOFFICE = fileURLToPath(new URL('../../../cli/bin/boxoffice', import.meta.url))
export const API_KEY = 'Zx3vPq8rT1mN5kW9yB2cD7fG4hJ6sL0a'
export const ENROLL_TOKEN = 'enroll-token-of-the-process-tests'

export type BrokerProcess = Awaited<ReturnType<typeof startBrokerProcess>>

/** A broker in a process of its own, as `boxoffice broker`. Rejects with what it wrote to stderr when it does not start. */
export async function startBrokerProcess(dataDir: string, env: Record<string, string> = {}) {
  const child: ChildProcess = spawn(BOXOFFICE, ['broker', '--json'], {
    env: {
      PATH: process.env.PATH,
      BOXOFFICE_DATA_DIR: dataDir,
      BOXOFFICE_PORT: '0',
      BOXOFFICE_API_KEY: API_KEY,
      BOXOFFICE_ENROLL_TOKEN: ENROLL_TOKEN,
      BOXOFFICE_REAPER_INTERVAL_MS: '200',
      BOXOFFICE_BROKER_TIMEOUT: '2',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let log = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    log += chunk.toString()
  })
  let line = ''
  for await (const chunk of child.stdout ?? []) {
    line += String(chunk)
    if (line.includes('\n')) break
  }
  if (!line.includes('\n')) throw new Error(log)
  const { broker_url: url } = JSON.parse(line) as { broker_url: string }
  const signal = async (name: 'SIGKILL' | 'SIGTERM') => {
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode
    child.kill(name)
    await once(child, 'exit')
    return child.exitCode
  }
  return {
    ...caller(url, API_KEY),
    url,
    pid: child.pid ?? 0,
    port: new URL(url).port,
    log: () => log,
    /** SIGSTOP and SIGCONT. */
    freeze: () => process.kill(child.pid ?? 0, 'SIGSTOP'),
    hangUp: () => process.kill(child.pid ?? 0, 'SIGHUP'),
    thaw: () => process.kill(child.pid ?? 0, 'SIGCONT'),
    kill: () => signal('SIGKILL'),
    /** SIGTERM; gives the exit code. */
    stop: () => signal('SIGTERM'),
  }
}
