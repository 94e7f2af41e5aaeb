import { spawn } from 'node:child_process'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { BoxofficeError } from '@boxoffice/protocol'
import type { LocalState } from './state-file.ts'

export type Spawned = {
  /** Of the started process; known at once. */
  pid: number
  /** Of PID 1 inside, by its id on the host. Rejects when the sandbox could not be set up, with what bubblewrap said. */
  supervisorPid: Promise<number>
}

const LOG_NAME = 'sandbox.log'

/** Starts a process that outlives the agent: a session of its own, no pipe to us but the one that tells the inner pid. */
export const spawnDetached = async (
  { file, arguments: args, directory, uid, gid }: LocalState['command'],
  options: { environment: Record<string, string>; infoPipe: boolean; logDirectory: string },
): Promise<Spawned> => {
  const logPath = join(options.logDirectory, LOG_NAME)
  await using log = await open(logPath, 'a', 0o600)
  const child = spawn(file, args, {
    cwd: directory,
    env: options.environment,
    detached: true,
    stdio: ['ignore', log.fd, log.fd, ...(options.infoPipe ? (['pipe'] as const) : [])],
    ...(uid === null ? {} : { uid }),
    ...(gid === null ? {} : { gid }),
  })
  child.unref()
  const failure = new Promise<never>((_, reject) => child.once('error', reject))
  failure.catch(() => {})
  const { pid } = child
  if (pid === undefined) return failure

  if (!options.infoPipe) return { pid, supervisorPid: Promise.resolve(pid) }
  const supervisorPid = innerPid(child.stdio[3] as Readable, logPath)
  supervisorPid.catch(() => {})
  return { pid, supervisorPid }
}

/** Reads bubblewrap's `--info-fd`: a small JSON object once the namespaces exist, or nothing at all when it failed. */
const innerPid = async (info: Readable, logPath: string): Promise<number> => {
  let answer = ''
  for await (const piece of info) {
    answer += String(piece)
    const inner = /"child-pid": (\d+)/.exec(answer)?.[1]
    if (inner !== undefined) return Number(inner)
  }
  const said = (await readFile(logPath, 'utf8').catch(() => '')).trim().slice(-500)
  throw new BoxofficeError('BACKEND_UNAVAILABLE', `bubblewrap could not start the sandbox: ${said === '' ? 'it said nothing' : said}`)
}
