import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { SpliceOutcome } from '@boxoffice/node-http'
import type { KillCause } from '@boxoffice/protocol'

/** How a process ended, as the supervisor says it (WIRE.md, `exit`). */
export type SupervisorExit = {
  id: string
  code: number | null
  signal: string | null
  reason: 'exited' | 'signaled' | 'timed_out' | 'oom_killed' | 'killed' | 'spawn_failed'
  cause: KillCause | null
  spawn_error: { kind: string; errno: string | null; message: string } | null
  duration_ms: number
  stdout_bytes: number
  stderr_bytes: number
  oom: boolean
}

/** Receives what one channel operation brings. Data arrives in any slicing. */
export interface ChannelHandler {
  /** A piece of stdout (1, also a file's content) or stderr (2), at most 64 KiB. The next read overwrites it: a handler copies what it keeps. */
  data(stream: 1 | 2, piece: Buffer): void
  /** The empty data frame: no more data comes, the operation goes on. */
  dataEnded?(): void
  /** Any other frame, by its type byte of WIRE.md, JSON already parsed. */
  frame(type: number, payload: Record<string, unknown>): void
  /** The connection is gone before the operation ended. */
  closed(): void
}

/** One connection of a supervisor, lent for one operation. It goes back to the idle set by itself when the operation's last frame arrives; from then on every method does nothing. */
export interface Channel {
  readonly number: number
  /** Sends a JSON frame. */
  send(type: number, payload: object): void
  /**
   * Sends stdin or an upload's body; false when more than `aheadBytes` wait for the kernel to take them (default: 512 KiB): then wait for
   * `drained`. An empty one says nothing.
   */
  write(data: Uint8Array, aheadBytes?: number): boolean
  /** Sends the end of what is written. */
  writeEnd(): void
  /** Everything that was written has been taken by the kernel, and another `splice` can begin. */
  readonly canSplice: boolean
  /**
   * Sends the next `bytes` that come on a connection, without their passing through here. Only when `canSplice`; nobody writes until
   * it resolves. What the end of the operation breaks off resolves with `sink`.
   */
  splice(from: Socket, bytes: number, patienceMs: number): Promise<SpliceOutcome>
  /** Resolves when there is room again, or when the operation is over. */
  drained(signal?: AbortSignal): Promise<void>
  /** Backpressure towards the supervisor. */
  pause(): void
  resume(): void
  /** Gives the operation up by closing the connection; the handler hears nothing more. */
  destroy(): void
}

/** The agent's end of one sandbox's supervisor: a control connection and its channels (WIRE.md). */
export interface SupervisorLink {
  readonly connected: boolean
  /** The supervisor, as far as it has dialled, knows the file operation `watch`. */
  readonly watches: boolean
  /** It connects to ports of the sandbox. */
  readonly dials: boolean
  /** It takes connections of programs of the sandbox to the agent. */
  readonly egress: boolean
  /** Resolves when the control connection is up. Rejects with SANDBOX_STARTING when the signal aborts. */
  whenConnected(signal: AbortSignal): Promise<void>
  /** Takes an idle channel, waits for a dial if there is none. Rejects when the link is closed. */
  open(handler: ChannelHandler, signal?: AbortSignal): Promise<Channel>
  /** A request on the control connection; rejects with a BoxofficeError mapped from the supervisor's `error`. */
  call(op: string, fields: Record<string, unknown>): Promise<Record<string, unknown>>
  /** What the reader of a channel has; fire and forget. */
  acknowledge(channel: number, stdout: number, stderr: number): void
  /** Has the supervisor listen on a port of the sandbox's loopback. Rejects where another program does, and with UNSUPPORTED for a supervisor of before. */
  listenForEgress(port: number): Promise<void>
  /** Takes each connection that a program has made there: a stream whose ways end by themselves. Without a handler they are broken off. */
  onEgress(handler: (connection: Duplex) => void): void
  /** Both return a function that takes the listener off again. */
  onEnded(listener: (exit: SupervisorExit) => void): () => void
  onConnection(listener: (connected: boolean) => void): () => void
  /** Stops listening and drops every connection; the sandbox itself is not told. */
  close(): Promise<void>
}
