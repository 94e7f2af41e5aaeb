import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EnvironmentVariables, RESTART_POLICIES } from '@boxoffice/protocol'
import { z } from 'zod'
import { Exit } from '../supervisor/payloads.ts'

/**
 * What the agent keeps of a managed process, so that it can tell of it and start it again after a restart of its own. The
 * supervisor knows the process; it has no room for the environment, which a restart needs. Mode 0600, in the agent's directory.
 */
export const ManagedRecord = z.object({
  process_id: z.string(),
  command: z.string(),
  args: z.array(z.string()),
  env: EnvironmentVariables,
  cwd: z.string().nullable(),
  restart: z.enum(RESTART_POLICIES),
  max_restarts: z.number().nullable(),
  /** Its last run's id at the supervisor. */
  run: z.string(),
  started_at: z.string(),
  restarts: z.number(),
  /** Runs in a row that were short: what the next wait depends on. */
  short_runs: z.number(),
  /** Somebody has asked for its end, so it is not started again. */
  stopped: z.boolean(),
  exited_at: z.string().nullable(),
  exit: Exit.nullable(),
})
export type ManagedRecord = z.infer<typeof ManagedRecord>

const directoryOf = (sandbox: string): string => join(sandbox, 'processes')

export const saveRecord = (sandbox: string, file: ManagedRecord): void => {
  mkdirSync(directoryOf(sandbox), { recursive: true, mode: 0o700 })
  const path = join(directoryOf(sandbox), `${file.process_id}.json`)
  writeFileSync(`${path}.new`, JSON.stringify(file), { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

export const removeRecord = (sandbox: string, processId: string): void =>
  rmSync(join(directoryOf(sandbox), `${processId}.json`), { force: true })

/** Those of an earlier run of the agent; one that cannot be read is as good as none. */
export const loadRecords = (sandbox: string): ManagedRecord[] => {
  let names: string[]
  try {
    names = readdirSync(directoryOf(sandbox))
  } catch {
    return []
  }
  return names
    .filter((name) => name.endsWith('.json'))
    .flatMap((name) => {
      try {
        return [ManagedRecord.parse(JSON.parse(readFileSync(join(directoryOf(sandbox), name), 'utf8')))]
      } catch {
        return []
      }
    })
}
