import type { OptionNames } from '../base/known-options.ts'
import type { OutputCallbacks } from './deliver.ts'

/** A string is given to the sandbox's shell; an array is run as it is. */
export type Command = string | readonly string[]

export type CommandOptions = {
  /** Relative to `/workspace` (the default), or absolute in the sandbox. */
  cwd?: string | undefined
  env?: Record<string, string> | undefined
  /** The shell for a string; default bash if the sandbox has it, else sh. */
  shell?: string | undefined
  /** When the command is ended, with exit code 124. Default 60; 0 is the longest that the profile allows (3,600), more is cut to it. */
  timeoutSeconds?: number | undefined
  /** Names this run: the same id with the same command never runs twice. Default: a new one. */
  execId?: string | undefined
  /** Ends the command. The promise rejects with the signal's reason. */
  signal?: AbortSignal | undefined
}

export type ExecOptions = CommandOptions &
  OutputCallbacks & {
    /** Default: none. */
    stdin?: string | Uint8Array | undefined
    /** What the result holds of each stream; default 1 MiB, at most 16 MiB. Callbacks are given all of it. */
    maxOutputBytes?: number | undefined
    /** What is kept of longer output; default `head_tail`. */
    outputKeep?: 'head_tail' | 'head' | 'tail' | undefined
  }

export const COMMAND: OptionNames<CommandOptions> = {
  ...{ cwd: true, env: true, shell: true },
  ...{ timeoutSeconds: true, execId: true, signal: true },
}

export const CALLBACKS: OptionNames<OutputCallbacks> = { onStdout: true, onStderr: true }
export const EXEC: OptionNames<ExecOptions> = { ...COMMAND, ...CALLBACKS, stdin: true, maxOutputBytes: true, outputKeep: true }

export const newExecId = (): string => crypto.randomUUID()

export const commandFields = (command: Command, options: CommandOptions, execId: string) => ({
  ...(typeof command === 'string' ? { command } : { argv: command }),
  shell: options.shell,
  cwd: options.cwd,
  env: options.env,
  timeout_seconds: options.timeoutSeconds,
  exec_id: execId,
})
