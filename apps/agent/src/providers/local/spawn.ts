import { spawn } from 'node:child_process'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { LocalState } from './state-file.ts'

export type Spawned = {
  /** Of the started process; known at once. */
  pid: number
  /** Of PID 1 inside, by its id on the host. Rejects when the sandbox could not be set up, with what bubblewrap said. */
  supervisorPid: Promise<number>
}

/** Where what bubblewrap and the supervisor say about themselves goes. */
export const LOG_NAME = 'sandbox.log'

export const openLog = (directory: string): Promise<FileHandle> => open(join(directory, LOG_NAME), 'a', 0o600)

/** Starts a process that outlives the agent: a session of its own, no pipe to us but the one that tells the inner pid. */
export const spawnDetached = async (
  { file, arguments: args, directory, uid, gid }: LocalState['command'],
  { environment, infoPipe, log }: { environment: Record<string, string>; infoPipe: boolean; log: FileHandle },
): Promise<Spawned> => {
  const child = spawn(file, args, {
    cwd: directory,
    env: environment,
    detached: true,
    stdio: ['ignore', log.fd, log.fd, ...(infoPipe ? (['pipe'] as const) : [])],
    ...(uid === null ? {} : { uid }),
    ...(gid === null ? {} : { gid }),
  })
  child.unref()
  const failure = new Promise<never>((_, reject) => child.once('error', reject))
  failure.catch(() => {})
  const { pid } = child
  if (pid === undefined) return failure

  if (!infoPipe) return { pid, supervisorPid: Promise.resolve(pid) }
  const supervisorPid = innerPid(child.stdio[3] as Readable)
  supervisorPid.catch(() => {})
  return { pid, supervisorPid }
}

/**
 * Reads bubblewrap's `--info-fd`: a small JSON object once the namespaces exist, or nothing at all when it failed. It is read
 * to the end, because bubblewrap dies of a pipe that closes while it still writes.
 */
export const innerPid = async (info: Readable): Promise<number> => {
  const found = Promise.withResolvers<number | undefined>()
  let answer = ''
  info.on('data', (piece: Buffer) => {
    answer += piece.toString('latin1')
    const inner = /"child-pid": (\d+),?\n/.exec(answer)?.[1]
    if (inner !== undefined) found.resolve(Number(inner))
  })
  info.on('error', found.reject)
  info.on('close', () => found.resolve(undefined))
  const pid = await found.promise
  if (pid !== undefined) return pid
  throw new Error('bubblewrap told no process id')
}
