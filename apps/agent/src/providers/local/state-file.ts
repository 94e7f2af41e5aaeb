import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { writeInPlace } from '../../data-dir/write-in-place.ts'

const ProcessName = z.object({ pid: z.number().int(), startTime: z.string() })

/** What the local provider must know of a sandbox after a restart of the agent; one file each, the basis of `list()`. */
export const LocalState = z.object({
  id: z.string(),
  profile_hash: z.string(),
  /** Process ids mean nothing after a reboot. */
  boot_id: z.string(),
  stopped: z.boolean(),
  /** Of bubblewrap outside of the sandbox, or of the supervisor itself with isolation `none`; null until it is started. */
  monitor: ProcessName.nullable(),
  /** PID 1 of the sandbox, by its id on the host. */
  supervisor: ProcessName.nullable(),
  /** Everything that starting it again takes. */
  command: z.object({
    file: z.string(),
    arguments: z.array(z.string()),
    directory: z.string(),
    uid: z.number().nullable(),
    gid: z.number().nullable(),
  }),
  link_directory: z.string(),
  /** Name of its control group. */
  group: z.string(),
})
export type LocalState = z.infer<typeof LocalState>

const SUFFIX = '.json'
const PREWARMED_NAME = 'local.json'

export type StateFiles = ReturnType<typeof stateFiles>

export const stateFiles = (directory: string) => {
  const pathOf = (id: string): string => join(directory, id + SUFFIX)
  return {
    /** For one that starts for the first time: if a crash tears this, nobody has been told of it, and what has been started ends. */
    async create(state: LocalState): Promise<void> {
      writeInPlace(pathOf(state.id), JSON.stringify(state))
    },
    /** An empty file in a directory that is prewarmed, which `usePrewarmed` makes a sandbox's. */
    async prewarm(directory: string): Promise<void> {
      writeInPlace(join(directory, PREWARMED_NAME), '')
    },
    /** Where it cannot be moved, a new one is made. */
    async usePrewarmed(id: string, directory: string): Promise<void> {
      const path = join(directory, PREWARMED_NAME)
      if (!existsSync(path)) return
      try {
        renameSync(path, pathOf(id))
      } catch {
        rmSync(path)
      }
    },
    // Not through the thread pool, where each call waits longer than it takes.
    async save(state: LocalState): Promise<void> {
      const path = pathOf(state.id)
      writeFileSync(`${path}.new`, JSON.stringify(state), { mode: 0o600 })
      renameSync(`${path}.new`, path)
    },
    async remove(id: string): Promise<void> {
      // With what a crash in the middle of a save left beside it.
      await rm(`${pathOf(id)}.new`, { force: true })
      await rm(pathOf(id), { force: true })
    },
    /** The sandboxes that have a file, readable or not. */
    async ids(): Promise<string[]> {
      return (await readdir(directory)).flatMap((name) => (name.endsWith(SUFFIX) ? [name.slice(0, -SUFFIX.length)] : []))
    },
    /** One file; undefined when it has gone. Throws where it cannot be read. */
    async read(id: string): Promise<LocalState | undefined> {
      const text = await readFile(pathOf(id), 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error
      })
      if (text === undefined) return undefined
      const state = LocalState.parse(JSON.parse(text))
      if (state.id !== id) throw new Error(`it is the file of ${state.id}`)
      return state
    },
  }
}
