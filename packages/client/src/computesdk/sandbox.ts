import type { Binding } from '@boxoffice/protocol'
import { BoxofficeError } from '../base/errors.ts'
import type { Session } from '../session.ts'
import { type ComputeCreateOptions, unsupported } from './create-options.ts'
import { ComputeFiles } from './files.ts'

export type ComputeCommandOptions = {
  /** Relative to `/workspace` (the default), or absolute in the sandbox. */
  cwd?: string
  env?: Record<string, string>
  /** Milliseconds, after which the command is ended with exit code 124. */
  timeout?: number
  /** Starts the command and leaves it; the result has no output and exit code 0, unless it could not start. */
  background?: boolean
  onStdout?: (data: string) => void
  onStderr?: (data: string) => void
}

export type ComputeCommandResult = { stdout: string; stderr: string; exitCode: number; durationMs: number }

export type ComputeInfo = {
  id: string
  provider: string
  status: 'running' | 'stopped' | 'error'
  createdAt: Date
  /** Milliseconds that a command has; 0 where the profile decides. */
  timeout: number
  /** The labels of the session. */
  metadata: Record<string, string>
}

/** What the provider knows of a sandbox; `session` negotiates on its first call. */
export type ComputeSandboxParts = {
  threadId: string
  session: () => Promise<Session>
  /** The session as it is now, or undefined where it has ended. */
  binding: () => Promise<Binding | undefined>
  release: () => Promise<void>
  defaults: Pick<ComputeCreateOptions, 'timeout' | 'envs' | 'directory'>
}

/** The most that a result holds of each stream. */
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024

/** One sandbox as ComputeSDK sees it: the session of the thread `sandboxId`. */
export class ComputeSandbox {
  readonly provider = 'boxoffice'
  readonly sandboxId: string
  readonly filesystem: ComputeFiles
  readonly #parts: ComputeSandboxParts

  constructor(parts: ComputeSandboxParts) {
    this.sandboxId = parts.threadId
    this.filesystem = new ComputeFiles(parts.session)
    this.#parts = parts
  }

  /** The session itself, for what ComputeSDK has no call for. */
  getInstance(): Promise<Session> {
    return this.#parts.session()
  }

  /** Runs a shell command. An exit code that is not 0 is a result. Rejects for what keeps a command from running at all. */
  async runCommand(command: string, options: ComputeCommandOptions = {}): Promise<ComputeCommandResult> {
    const { defaults } = this.#parts
    const { cwd = defaults.directory, timeout = defaults.timeout, background, onStdout, onStderr } = options
    const session = await this.#parts.session()
    const common = { cwd, env: { ...defaults.envs, ...options.env }, timeoutSeconds: secondsOf(timeout) }
    if (background === true) return await startInBackground(session, command, common)
    const result = await session.exec(command, { ...common, maxOutputBytes: MAX_OUTPUT_BYTES, onStdout, onStderr })
    return { stdout: result.stdout, stderr: result.stderr, exitCode: result.exitCode, durationMs: result.durationMs }
  }

  /** As it is now; wakes nothing. */
  async getInfo(): Promise<ComputeInfo> {
    const { threadId, binding, defaults } = this.#parts
    const found = await binding()
    if (found === undefined) throw new BoxofficeError('BINDING_NOT_FOUND', `there is no sandbox ${threadId}`, { status: 404 })
    return {
      id: threadId,
      provider: this.provider,
      status: statusOf(found.state),
      createdAt: new Date(found.created_at),
      timeout: defaults.timeout ?? 0,
      metadata: found.labels,
    }
  }

  /** Ports of a sandbox have no URL here. */
  async getUrl({ port }: { port: number; protocol?: string }): Promise<string> {
    throw unsupported(`URLs of ports (getUrl, port ${port})`)
  }

  /** Ends the session, with its files. One that is gone is fine. */
  async destroy(): Promise<void> {
    await this.#parts.release()
  }
}

type Common = { cwd: string | undefined; env: Record<string, string>; timeoutSeconds: number | undefined }

/** A command that goes on without a client has, unless the caller says otherwise, the longest time that the profile allows. */
const startInBackground = async (session: Session, command: string, common: Common): Promise<ComputeCommandResult> => {
  const timeoutSeconds = common.timeoutSeconds ?? 0
  const run = await session.exec.start(command, { ...common, timeoutSeconds, stdin: 'closed', detach: true })
  if (run.pid === undefined) {
    const { exitCode, durationMs, spawnError } = await run.exit
    return { stdout: '', stderr: spawnError?.message ?? '', exitCode, durationMs }
  }
  run.exit.catch(() => {}) // DETACHED
  run.detach()
  return { stdout: '', stderr: '', exitCode: 0, durationMs: 0 }
}

const secondsOf = (milliseconds: number | undefined): number | undefined => (milliseconds === undefined ? undefined : milliseconds / 1000)

const statusOf = (state: Binding['state']): ComputeInfo['status'] => {
  if (state === 'failed') return 'error'
  return state === 'suspended' || state === 'terminated' ? 'stopped' : 'running'
}
