import { renameSync, writeFileSync } from 'node:fs'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { MountSet, Profile } from '@boxoffice/protocol'
import { z } from 'zod'
import { writeInPlace } from './write-in-place.ts'

/** What the agent knows of a sandbox beyond what the engine does; read again after a restart. */
export const SandboxFile = z.object({
  sandbox_id: z.string(),
  /** Null while it waits in the pool. */
  session_id: z.string().nullable(),
  generation: z.number().int(),
  profile: Profile,
  profile_hash: z.string(),
  image: z.string(),
  /** Name of its workspace: the sandbox's id for one of its own, which goes with it; else that of its scope, which stays. */
  workspace: z.string(),
  /** The name of its scope's workspace, for one of its own that is to be kept. */
  kept_as: z.string().nullable().default(null),
  /** As it was asked for; another one makes the sandbox anew. */
  mounts: MountSet.prefault({}),
  /** The directory of the host that is its workspace; null: `workspace` of the data directory. */
  host_workspace: z.string().nullable().default(null),
  uid: z.number().int(),
  gid: z.number().int(),
  /** SHA-256 of the link secret; null until the supervisor's first dial. */
  secret_hash: z.string().nullable(),
  /** The name of its provider; null in records of agents that did not note it. */
  provider: z.string().nullable().default(null),
  /** Of the last order for its egress; 0: there was none. */
  egress_revision: z.number().int().default(0),
  /** Stopped by us, and not by an accident while the agent was away. */
  stopped: z.boolean(),
})
export type SandboxFile = z.infer<typeof SandboxFile>

export const RECORD_NAME = 'record.json'

/** The record of a sandbox that starts for the first time: one that a crash tears is that of a sandbox which was never finished. */
export const writeNewSandboxFile = async (directory: string, file: SandboxFile): Promise<void> => {
  writeInPlace(join(directory, RECORD_NAME), JSON.stringify(file))
}

// A trip to the thread pool costs more than these calls.
export const saveSandboxFile = async (directory: string, file: SandboxFile): Promise<void> => {
  const path = join(directory, RECORD_NAME)
  writeFileSync(`${path}.new`, JSON.stringify(file), { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

/** Every record below `sandboxes`. A directory without a readable one is a sandbox that was never finished: it goes. */
export const loadSandboxFiles = async (sandboxes: string, onBad: (directory: string, error: unknown) => void): Promise<SandboxFile[]> => {
  const loaded = await Promise.all(
    (await readdir(sandboxes)).map(async (name) => {
      const directory = join(sandboxes, name)
      try {
        return SandboxFile.parse(JSON.parse(await readFile(join(directory, RECORD_NAME), 'utf8')))
      } catch (error) {
        onBad(directory, error)
        await rm(directory, { recursive: true, force: true })
        return undefined
      }
    }),
  )
  return loaded.filter((file) => file !== undefined)
}
