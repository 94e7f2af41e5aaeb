import { type OptionNames, refuseUnknown } from '../base/known-options.ts'
import type { StartOptions } from '../sandbox/exec.ts'
import type { Session } from '../session.ts'
import { type AiSandboxFiles, aiSandboxFiles } from './files.ts'
import {
  type AiSandboxProcess,
  type AiSandboxProcessOptions,
  type AiWritableSandboxProcess,
  aiProcess,
  aiWritableProcess,
} from './process.ts'

export type AiSandboxOptions = {
  /** What a model is told of the sandbox, in the place of the default text. */
  description?: string | undefined
  /** For each command, which then exits with 124. Default 0, as long as the profile allows: the AI SDK ends commands by its signals. */
  timeoutSeconds?: number | undefined
}

/** The AI SDK's `Experimental_SandboxSession`. */
export type AiSandboxSession = AiSandboxFiles & {
  readonly description: string
  /** Runs a command to its end. At most 16 MiB of each stream are kept, its beginning and its end. */
  readonly run: (options: AiSandboxProcessOptions) => Promise<{ exitCode: number; stdout: string; stderr: string }>
  readonly spawn: {
    (options: AiSandboxProcessOptions & { stdin: true }): Promise<AiWritableSandboxProcess>
    (options: AiSandboxProcessOptions & { stdin?: false }): Promise<AiSandboxProcess>
    (options: AiSandboxProcessOptions & { stdin?: boolean }): Promise<AiSandboxProcess | AiWritableSandboxProcess>
  }
}

const OPTIONS: OptionNames<AiSandboxOptions> = { description: true, timeoutSeconds: true }
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024
const DESCRIPTION = [
  'A Linux sandbox. Commands run in a POSIX shell and start in /workspace, which is also where relative paths begin.',
  'Files below /workspace stay for the whole session. Other directories may be read-only; /tmp is writable.',
].join('\n')

/** A session as the sandbox of a call of the AI SDK: `generateText({ …, experimental_sandbox: aiSandbox(session) })`. */
export const aiSandbox = (session: Session, options: AiSandboxOptions = {}): AiSandboxSession => {
  refuseUnknown('aiSandbox', options, OPTIONS)
  const { description = DESCRIPTION, timeoutSeconds = 0 } = options
  const optionsOf = ({ workingDirectory, env, abortSignal }: AiSandboxProcessOptions) =>
    ({ cwd: workingDirectory, env, signal: abortSignal, timeoutSeconds }) satisfies StartOptions

  function spawn(wanted: AiSandboxProcessOptions & { stdin: true }): Promise<AiWritableSandboxProcess>
  function spawn(wanted: AiSandboxProcessOptions & { stdin?: boolean }): Promise<AiSandboxProcess>
  async function spawn(wanted: AiSandboxProcessOptions & { stdin?: boolean }): Promise<AiSandboxProcess> {
    const stdin = wanted.stdin === true ? 'open' : 'closed'
    const run = await session.exec.start(wanted.command, { ...optionsOf(wanted), stdin })
    return stdin === 'open' ? aiWritableProcess(run, session.exec) : aiProcess(run, session.exec)
  }
  return {
    description,
    ...aiSandboxFiles(session.files),
    spawn,
    async run(wanted) {
      const { exitCode, stdout, stderr } = await session.exec(wanted.command, { ...optionsOf(wanted), maxOutputBytes: MAX_OUTPUT_BYTES })
      return { exitCode, stdout, stderr }
    },
  }
}
