import type { Command } from 'commander'
import { UsageError } from './usage-error.ts'

export type SandboxFlags = { thread: string; profile?: string }

export const withThread = (command: Command): Command =>
  command.option('--thread <id>', 'whose sandbox (BOXOFFICE_THREAD)', process.env.BOXOFFICE_THREAD ?? 'default')

/** For commands that make a sandbox where there is none. */
export const withSandbox = (command: Command): Command => withThread(command).option('--profile <name>', 'for a sandbox that is made now')

/** `NAME=value` gathered into one object. */
export const collectEnvironment = (text: string, variables: Record<string, string> = {}): Record<string, string> => {
  const at = text.indexOf('=')
  if (at < 1) throw new UsageError(`--env: ${JSON.stringify(text)} is not NAME=value`)
  return { ...variables, [text.slice(0, at)]: text.slice(at + 1) }
}
