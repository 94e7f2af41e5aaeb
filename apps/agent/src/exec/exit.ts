import { constants } from 'node:os'
import { type exitFields, type JournalFact, SPAWN_ERROR_KINDS, type SpawnError } from '@boxoffice/protocol'
import type { z } from 'zod'
import type { Gone, ProcessKind } from '../sandbox/process-tracker.ts'
import type { SupervisorExit } from '../supervisor/link.ts'
import { processIdOf } from './managed-run.ts'

/** How a process ended, as clients see it: shared by results, records and `exit` frames. `exit_code` is always an integer here. */
export type ExitFields = { [name in keyof typeof exitFields]: z.infer<(typeof exitFields)[name]> } & { exit_code: number }

const SIGNAL_NUMBERS: Readonly<Record<string, number>> = constants.signals

/** 128 + n, as shells count; an unknown name (it cannot come from Linux) counts as KILL. */
const codeOfSignal = (signal: string): number => 128 + (SIGNAL_NUMBERS[signal] ?? 9)

const isSpawnErrorKind = (kind: string): kind is SpawnError['kind'] => (SPAWN_ERROR_KINDS as readonly string[]).includes(kind)

const exitCode = (exit: SupervisorExit): number => {
  switch (exit.reason) {
    case 'timed_out':
      return 124
    case 'oom_killed':
      return 137
    case 'spawn_failed':
      return exit.spawn_error?.kind === 'not_found' ? 127 : 126
    case 'exited':
    case 'signaled':
    case 'killed':
      return exit.code ?? codeOfSignal(exit.signal ?? 'SIGKILL')
  }
}

const spawnError = (error: SupervisorExit['spawn_error']): SpawnError | null =>
  error === null ? null : { kind: isSpawnErrorKind(error.kind) ? error.kind : 'other', errno: error.errno, message: error.message }

/** The one mapping from what the supervisor saw to what is told [C-31, C-32, C-33]. */
export const toExitFields = (exit: SupervisorExit): ExitFields => ({
  exit_code: exitCode(exit),
  signal: exit.signal,
  reason: exit.reason,
  timed_out: exit.reason === 'timed_out',
  oom_killed: exit.reason === 'oom_killed' || exit.oom,
  spawn_error: spawnError(exit.spawn_error),
  kill_cause: exit.cause,
  duration_ms: exit.duration_ms,
  stdout_bytes: exit.stdout_bytes,
  stderr_bytes: exit.stderr_bytes,
})

type Fact = Extract<JournalFact, { type: 'exec.exit' | 'process.exit' }>
type Told = Omit<Extract<Fact, { type: 'process.exit' }>['data'], 'process_id'>

/** The same, for those who follow the session. */
export const exitFact = (kind: ProcessKind, exit: SupervisorExit): Fact => {
  const { exit_code, signal, reason, kill_cause, oom_killed, duration_ms } = toExitFields(exit)
  return fact(kind, exit.id, { exit_code, signal, reason, kill_cause, oom_killed, duration_ms })
}

/** A process that is certainly no more, though nobody saw it end: nothing is made up but that [C-31, C-53]. */
export const unseenExitFact = (kind: ProcessKind, id: string, gone: Gone): Fact =>
  fact(kind, id, {
    exit_code: null,
    signal: null,
    reason: gone === 'stopped' ? 'killed' : 'sandbox_lost',
    kill_cause: gone === 'stopped' ? 'stopped' : null,
    oom_killed: gone === 'oom',
    duration_ms: null,
  })

const fact = (kind: ProcessKind, id: string, told: Told): Fact => {
  switch (kind) {
    case 'exec':
      return { type: 'exec.exit', data: { kind, exec_id: id, ...told } }
    case 'shell':
      return { type: 'exec.exit', data: { kind, shell_id: id, ...told } }
    case 'process':
      return { type: 'process.exit', data: { process_id: processIdOf(id), ...told } }
  }
}
