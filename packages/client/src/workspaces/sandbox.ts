import { isCode } from '../base/errors.ts'
import type { ExecResult } from '../base/exec-result.ts'
import type { Client } from '../client.ts'
import type { Session } from '../session.ts'
import { clientFor, type EndpointOptions } from './endpoint.ts'
import { fileHelpers } from './file-helpers.ts'
import { tell } from './logger.ts'
import { type Entry, entriesOf } from './session-files.ts'
import { ensureDirectory, identityOf, touch, type WorkspaceOptions } from './workspace.ts'
import { workspaceError } from './workspace-error.ts'

/** What runs the code. */
export type Runtime = 'python' | 'shell'

/** How code may run; passed on to the sandbox as it is [1-31]. */
export type ExecutionPolicy = {
  /** Exit code 124 after that; default: the profile's. */
  timeoutSeconds?: number | undefined
  /** How much of each output stream is kept. */
  maxOutputBytes?: number | undefined
  env?: Record<string, string> | undefined
  /** Image, limits and network, by the name of a profile. */
  profile?: string | undefined
  provider?: string | undefined
}

export type SandboxOptions = Omit<WorkspaceOptions, 'workspaceRoot' | 'allowNonUuid'> &
  EndpointOptions & {
    runtime?: Runtime | undefined
    policy?: ExecutionPolicy | undefined
    /** Tells which files an execution has made and changed; costs two listings. */
    trackFiles?: boolean | undefined
  }

export type SandboxResult = {
  success: boolean
  stdout: string
  stderr: string
  exit_code: number
  timed_out: boolean
  duration_ms: number
  workspace_path: string
  /** Sorted; null unless `trackFiles`. */
  files_created: string[] | null
  files_modified: string[] | null
  /** `session_id` for sandboxes of sessions only. */
  metadata: { runtime: Runtime; session_id?: string; [name: string]: unknown }
}

/** How long a directory that is in use can look unused. */
const TOUCH_MS = 600_000

/** Refusals that come before anything has run: the sandbox is another one by now. */
const OVER = ['SESSION_RELEASED', 'SESSION_EXPIRED', 'BINDING_NOT_FOUND'] as const

/** Runs code on a directory of the host. Whatever is to last is in that directory; sandboxes come and go. */
export class Sandbox {
  readonly runtime: Runtime
  readonly policy: ExecutionPolicy
  readonly workspacePath: string
  readonly sessionId: string | undefined
  readonly #root: string
  readonly #options: SandboxOptions
  #session: { key: string; ready: Promise<Session> } | undefined

  constructor(directory: string, root: string, sessionId: string | undefined, options: SandboxOptions) {
    const { runtime = 'python', policy = {} } = options
    if (!Object.hasOwn(COMMANDS, runtime))
      throw workspaceError('INVALID_REQUEST', `runtime: must be one of ${Object.keys(COMMANDS).join(', ')}`)
    this.runtime = runtime
    this.policy = policy
    this.workspacePath = directory
    this.sessionId = sessionId
    this.#root = root
    this.#options = options
  }

  /** Code that fails is a result; an error means that it could not be run. */
  async execute(code: string, options: { signal?: AbortSignal } = {}): Promise<SandboxResult> {
    const { logger, trackFiles = false } = this.#options
    const named = this.sessionId === undefined ? {} : { session_id: this.sessionId }
    await ensureDirectory(this.workspacePath)
    await using _ = this.#inUse()
    tell(logger, 'execution.start', { runtime: this.runtime, ...named })
    const before = trackFiles ? await this.#entries() : undefined
    const { session, result } = await this.#run(code, options.signal)
    const changes = before === undefined ? { created: null, modified: null } : changesOf(before, await this.#entries())
    const { exitCode, timedOut, durationMs } = result
    tell(logger, 'execution.complete', {
      runtime: this.runtime,
      ...named,
      success: exitCode === 0,
      exit_code: exitCode,
      duration_ms: durationMs,
    })
    return {
      success: exitCode === 0,
      stdout: result.stdout,
      stderr: result.stderr,
      exit_code: exitCode,
      timed_out: timedOut,
      duration_ms: durationMs,
      workspace_path: this.workspacePath,
      files_created: changes.created,
      files_modified: changes.modified,
      metadata: {
        runtime: this.runtime,
        ...named,
        exec_id: result.execId,
        sandbox_id: session.sandboxId,
        stdout_truncated: result.stdoutTruncated,
        stderr_truncated: result.stderrTruncated,
      },
    }
  }

  async #run(code: string, signal: AbortSignal | undefined): Promise<{ session: Session; result: ExecResult }> {
    const { command, stdin } = COMMANDS[this.runtime](code)
    const { timeoutSeconds, maxOutputBytes, env } = this.policy
    const options = { stdin, timeoutSeconds, maxOutputBytes, env, signal }
    const session = await this.#ready()
    try {
      return { session, result: await session.exec(command, options) }
    } catch (error) {
      if (!OVER.some((code) => isCode(error, code))) throw error
      this.#session = undefined
      const again = await this.#ready()
      return { session: again, result: await again.exec(command, options) }
    }
  }

  /** The session of the directory as it is now. */
  async #ready(): Promise<Session> {
    const identity = await identityOf(this.workspacePath)
    if (identity === undefined) throw workspaceError('FILE_NOT_FOUND', 'The workspace was deleted while it was to be used')
    // Also which Boxoffice: one that was started on demand may have ended.
    const { url, client } = await clientFor(this.#root, this.#options)
    const key = `${url} ${identity.name}`
    if (this.#session?.key !== key) {
      const ready = this.#negotiate(client, identity)
      this.#session = { key, ready }
      ready.catch(() => {
        if (this.#session?.ready === ready) this.#session = undefined
      })
    }
    return await this.#session.ready
  }

  #negotiate(client: Client, identity: { path: string; name: string }): Promise<Session> {
    const { profile, provider } = this.policy
    return client.session({
      threadId: threadOf(this.sessionId ?? '', identity.name),
      workspaceHostPath: identity.path,
      profile,
      provider,
    })
  }

  #entries(): Promise<Entry[]> {
    return entriesOf({ directory: this.workspacePath, helpers: fileHelpers(this.#options.supervisorPath) })
  }

  /** Until it is disposed the directory looks used, also to other processes. Its last touch is over when the caller goes on. */
  #inUse(): AsyncDisposable {
    const timer = setInterval(() => void touch(this.workspacePath), TOUCH_MS)
    timer.unref()
    return {
      [Symbol.asyncDispose]: () => {
        clearInterval(timer)
        return touch(this.workspacePath)
      },
    }
  }
}

/** One directory, one sandbox: its identity is part of the name, since what is made anew under a name is another directory. */
export const threadOf = (sessionId: string, identity: string): string => `workspaces/${sessionId === '' ? '' : `${sessionId}/`}${identity}`

type Start = { command: string[]; stdin?: string }

/** What fits into one argument; Linux takes 128 KiB. */
const MAX_ARGUMENT = 96 * 1024
const FROM_STDIN = `import sys; exec(compile(sys.stdin.read(), '<string>', 'exec'))`

const COMMANDS: Record<Runtime, (code: string) => Start> = {
  python: (code) => (fits(code) ? { command: ['python3', '-c', code] } : { command: ['python3', '-c', FROM_STDIN], stdin: code }),
  shell: (code) => (fits(code) ? { command: ['sh', '-c', code] } : { command: ['sh', '-s'], stdin: code }),
}

const fits = (code: string): boolean => Buffer.byteLength(code) <= MAX_ARGUMENT

const changesOf = (before: readonly Entry[], after: readonly Entry[]): { created: string[]; modified: string[] } => {
  const known = new Map(before.map((entry) => [entry.path, entry]))
  const files = after.filter(({ type }) => type === 'f')
  const isSame = (entry: Entry, old: Entry) => old.size === entry.size && old.mtimeMs === entry.mtimeMs
  return {
    created: files.filter(({ path }) => !known.has(path)).map(({ path }) => path),
    modified: files.flatMap((entry) => {
      const old = known.get(entry.path)
      return old === undefined || isSame(entry, old) ? [] : [entry.path]
    }),
  }
}
