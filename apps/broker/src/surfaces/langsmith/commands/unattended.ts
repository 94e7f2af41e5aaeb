import { ExecSummary } from '@boxoffice/protocol'
import type { SessionDataplane } from '../../../dataplane/client.ts'
import type { Log } from '../../../host/log.ts'
import { SessionTimers } from './session-timers.ts'

const CHECK_AGAIN_SECONDS = 1

export type LeftCommand = { sessionId: string; commandId: string; dataplane: SessionDataplane }

/** Ends commands that go on without their client, when the time that it gave them is over (contract 7.2). */
export class Unattended {
  readonly #idle = new SessionTimers()
  readonly #limits = new SessionTimers()
  readonly #log: Log

  constructor(log: Log) {
    this.#log = log
  }

  /** The last client of this broker has left: the command may go on for `seconds` until one comes again, its `idle_timeout_seconds`. */
  left(command: LeftCommand, seconds: number): void {
    const { sessionId, commandId } = command
    const end = async (): Promise<void> => {
      const { state, attached } = await this.#look(command)
      if (state !== 'running') return
      if (attached === 0) return this.#kill(command)
      // A client has come by another way, which its agent knows, or has just left.
      this.left(command, Math.max(seconds, CHECK_AGAIN_SECONDS))
    }
    this.#idle.set(sessionId, commandId, seconds, () => this.#try(command, end))
  }

  /** The command may run for `seconds` more, with a client or without: an agent limits the time of commands, not of terminals. */
  limit(command: LeftCommand, seconds: number): void {
    const end = async (): Promise<void> => {
      if ((await this.#look(command)).state === 'running') await this.#kill(command)
    }
    this.#limits.set(command.sessionId, command.commandId, seconds, () => this.#try(command, end))
  }

  /** A client has it again, or it has ended. */
  attended(sessionId: string, commandId: string): void {
    this.#idle.clear(sessionId, commandId)
  }

  /** A new command has this id: what an earlier one had left is not its own. */
  begun(sessionId: string, commandId: string): void {
    this.attended(sessionId, commandId)
    this.#limits.clear(sessionId, commandId)
  }

  close(): void {
    this.#idle.close()
    this.#limits.close()
  }

  #look({ commandId, dataplane }: LeftCommand): Promise<ExecSummary> {
    return dataplane.json({ method: 'GET', path: pathOf(commandId) }, ExecSummary)
  }

  async #kill({ commandId, dataplane }: LeftCommand): Promise<void> {
    await dataplane.done({ method: 'POST', path: `${pathOf(commandId)}/signal`, json: { signal: 'KILL' } })
  }

  #try({ sessionId, commandId }: LeftCommand, end: () => Promise<void>): void {
    end().catch((err: unknown) =>
      this.#log.info({ session_id: sessionId, exec_id: commandId, err }, 'a command without a client was not ended'),
    )
  }
}

const pathOf = (commandId: string): string => `/execs/${encodeURIComponent(commandId)}`
