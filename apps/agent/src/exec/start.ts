import { hash } from 'node:crypto'
import { BoxofficeError, type commandFields, LIMITS, TIMES } from '@boxoffice/protocol'
import type { z } from 'zod'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { formatMeta } from './meta.ts'

export type CommandFields = { [name in keyof typeof commandFields]?: z.infer<(typeof commandFields)[name]> }

/** The `start` frame of WIRE.md. */
export type StartPayload = {
  id: string
  fingerprint: string
  meta: string
  command?: string
  argv?: string[]
  shell?: string
  cwd?: string
  env: Record<string, string>
  stdin: 'open' | 'closed'
  pty?: { cols: number; rows: number }
  timeout_ms?: number
  grace_ms: number
  detach: boolean
  orphan_ms?: number
  stdout: number | 'end'
  stderr: number | 'end'
  quiet: boolean
}

const TIMEOUT_GRACE_MS = 1000

/** The command of a request: exactly one of `command`, `argv` and its alias `cmd` [C-63]. */
export const commandOf = ({ command, argv, cmd }: CommandFields): { command: string } | { argv: string[] } => {
  const given = [command, argv, cmd].filter((field) => field !== undefined).length
  if (given !== 1) throw new BoxofficeError('INVALID_REQUEST', 'command, argv: give exactly one of them')
  if (command !== undefined) return { command }
  return { argv: argv ?? cmd ?? [] }
}

/** Sizes that are refused with 413, before the schema would call them invalid [C-63]. */
export const assertCommandSize = (body: Record<string, unknown>): void => {
  if (typeof body.command === 'string' && Buffer.byteLength(body.command) > LIMITS.commandBytes) {
    throw new BoxofficeError('PAYLOAD_TOO_LARGE', `command: at most ${LIMITS.commandBytes} bytes; put a longer script into a file`)
  }
  const argv = body.argv ?? body.cmd
  if (argv === undefined && body.env === undefined) return
  let bytes = 0
  if (Array.isArray(argv)) for (const part of argv) bytes += typeof part === 'string' ? Buffer.byteLength(part) : 0
  if (typeof body.env === 'object' && body.env !== null) {
    for (const [name, value] of Object.entries(body.env))
      bytes += Buffer.byteLength(name) + (typeof value === 'string' ? Buffer.byteLength(value) : 0)
  }
  if (bytes > LIMITS.argvBytes) throw new BoxofficeError('PAYLOAD_TOO_LARGE', `argv, env: at most ${LIMITS.argvBytes} bytes together`)
}

/** Seconds until the timeout: a default for HTTP, none for sockets; the profile's maximum bounds both, and 0 asks for it. */
export const timeoutOf = (fields: CommandFields, sandbox: Sandbox, fallback: number | undefined): number => {
  const asked = fields.timeout_seconds ?? fields.timeout ?? fields.timeout_secs ?? fallback ?? 0
  const { max_exec_seconds: maximum } = sandbox.profile
  return asked === 0 || asked > maximum ? maximum : asked
}

export const environmentOf = (sandbox: Sandbox, env: Record<string, string> | undefined): Record<string, string> => ({
  BOXOFFICE_SESSION_ID: sandbox.sessionId,
  BOXOFFICE_SANDBOX_ID: sandbox.id,
  BOXOFFICE_WORKSPACE: sandbox.workspacePath,
  ...sandbox.environment,
  ...env,
})

/** Two starts of one id are the same process only if this agrees (contract 3.2). */
export const fingerprintOf = (parts: readonly unknown[]): string => hash('sha256', JSON.stringify(parts))

export type ExecStart = {
  id: string
  fields: CommandFields
  timeoutSeconds: number
  /** What stands for stdin in the fingerprint: its content, or `"open"`. */
  stdinIdentity: string
  stdin: 'open' | 'closed'
  /** Seconds an exec lives on without a reader; ignored with `detach`. */
  graceSeconds: number
  stdout?: number | 'end'
  stderr?: number | 'end'
  quiet: boolean
}

/** The `start` of an exec, over HTTP or a socket. */
export const execStart = (sandbox: Sandbox, options: ExecStart): StartPayload => {
  const { fields, timeoutSeconds } = options
  const what = commandOf(fields)
  const detach = fields.detach ?? false
  return {
    id: options.id,
    fingerprint: fingerprintOf([what, fields.shell ?? null, fields.cwd ?? null, fields.env ?? null, options.stdinIdentity]),
    meta: formatMeta({ kind: 'exec', command: 'command' in what ? what.command : what.argv.join(' '), timeout: timeoutSeconds }),
    ...what,
    ...(fields.shell === undefined ? {} : { shell: fields.shell }),
    ...(fields.cwd === undefined ? {} : { cwd: inWorkspace(sandbox, fields.cwd) }),
    env: environmentOf(sandbox, fields.env),
    stdin: options.stdin,
    timeout_ms: Math.round(timeoutSeconds * 1000),
    grace_ms: TIMEOUT_GRACE_MS,
    detach,
    ...(detach ? {} : { orphan_ms: options.graceSeconds * 1000 }),
    stdout: options.stdout ?? 0,
    stderr: options.stderr ?? 0,
    quiet: options.quiet,
  }
}

export type ShellStart = {
  id: string
  fields: Pick<CommandFields, 'argv' | 'shell' | 'cwd' | 'env' | 'detach'>
  term: string
  cols: number
  rows: number
  stdout?: number | 'end'
}

/** Without `argv` or `shell`: bash where the sandbox has it. A shell prompts only if it is interactive, so no `-c` reaches the last one. */
const DEFAULT_SHELL = ['/bin/sh', '-c', '[ -x /bin/bash ] && exec /bin/bash; exec /bin/sh']

export const shellStart = (sandbox: Sandbox, { id, fields, term, cols, rows, stdout }: ShellStart): StartPayload => {
  const argv = fields.argv ?? (fields.shell === undefined ? DEFAULT_SHELL : [fields.shell])
  const detach = fields.detach ?? false
  return {
    id,
    fingerprint: fingerprintOf(['shell', argv, fields.cwd ?? null, fields.env ?? null]),
    meta: formatMeta({ kind: 'shell', command: (fields.argv ?? [fields.shell ?? 'shell']).join(' ') }),
    argv,
    ...(fields.cwd === undefined ? {} : { cwd: inWorkspace(sandbox, fields.cwd) }),
    env: { TERM: term, ...environmentOf(sandbox, fields.env) },
    stdin: 'open',
    pty: { cols, rows },
    grace_ms: TIMEOUT_GRACE_MS,
    detach,
    ...(detach ? {} : { orphan_ms: TIMES.shellDisconnectGrace * 1000 }),
    stdout: stdout ?? 0,
    stderr: 0,
    quiet: false,
  }
}

/** One run of a managed process. */
export type ManagedCommand = { run: string; command: string; args: string[]; env: Record<string, string>; cwd: string | null }

/** The `start` of a managed process: no timeout, and nobody has to read it. */
export const managedStart = (sandbox: Sandbox, { run, command, args, env, cwd }: ManagedCommand): StartPayload => ({
  id: run,
  // Each run has an id of its own, and nobody but the agent knows it.
  fingerprint: run,
  meta: formatMeta({ kind: 'process', command: [command, ...args].join(' ') }),
  argv: [command, ...args],
  ...(cwd === null ? {} : { cwd: inWorkspace(sandbox, cwd) }),
  env: environmentOf(sandbox, env),
  stdin: 'open',
  grace_ms: TIMEOUT_GRACE_MS,
  detach: true,
  stdout: 0,
  stderr: 0,
  quiet: false,
})

/** With isolation `none` there is no `/workspace`: that prefix means the session's directory (contract 3.8). */
const inWorkspace = ({ isolation, workspacePath }: Sandbox, cwd: string): string => {
  if (isolation !== 'none') return cwd
  const rest = /^\/+(?:workspace|app)(\/.*)?$/.exec(cwd)
  return rest === null ? cwd : workspacePath + (rest[1] ?? '')
}
