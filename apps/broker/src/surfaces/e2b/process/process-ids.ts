import { randomInt } from 'node:crypto'
import { BoxofficeError } from '@boxoffice/protocol'

/**
 * E2B's clients know a process by a number. It is made here and is part of the exec id, so that every broker finds the process by it,
 * also after a restart, and no number is ever another process's. It is not the number of the process inside the sandbox.
 */
export type ProcessKind = 'exec' | 'shell'
export type ProcessName = { pid: number; kind: ProcessKind; id: string }

const ID = /^e2b-([1-9]\d{0,9})$/
const MAX_HALF = 2 ** 30

/** Even numbers are commands, odd ones terminals. */
export const newProcess = (kind: ProcessKind): ProcessName => processOf(2 * randomInt(1, MAX_HALF) + (kind === 'exec' ? 0 : 1))

export const processOf = (pid: number): ProcessName => ({ pid, kind: pid % 2 === 0 ? 'exec' : 'shell', id: `e2b-${pid}` })

/** The process of an exec id; undefined where another client has started it. */
export function processOfExec(execId: string): ProcessName | undefined {
  const [, pid] = ID.exec(execId) ?? []
  return pid === undefined ? undefined : processOf(Number(pid))
}

/** The process that a request selects by its number. */
export function selected(selector: { pid?: number | undefined; tag?: string | undefined } | undefined): ProcessName {
  if (selector?.pid === undefined) throw new BoxofficeError('UNSUPPORTED', 'process: select it by its pid; tags are not served')
  return processOf(selector.pid)
}
