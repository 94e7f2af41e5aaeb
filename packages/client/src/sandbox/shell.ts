import type { ReadyFrame } from '@boxoffice/protocol'
import type { Exit } from '../base/exec-result.ts'
import { type OptionNames, refuseUnknown } from '../base/known-options.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { Attachment, type Beginning } from '../stream/attachment.ts'
import { type Output, type Stdin, stdinOf } from './run.ts'

type Size = { cols: number; rows: number }

export type ShellOptions = {
  cols?: number | undefined
  rows?: number | undefined
  /** Names the shell: opening it again by this id joins it, with what its screen showed. Default: a new one. */
  shellId?: string | undefined
  /** Default: the sandbox's own shell. */
  argv?: readonly string[] | undefined
  cwd?: string | undefined
  env?: Record<string, string> | undefined
  /** The terminal's type; default `xterm-256color`. */
  term?: string | undefined
  /** How to join: with the others (default), in their place, or reading only. */
  mode?: 'mirror' | 'takeover' | 'viewer' | undefined
  /** Where to begin when joining: with all that is kept (`oldest`, the default), or with what comes from now on (`end`). */
  offset?: Beginning | undefined
  /** Lets the shell live without a client. Else it ends 300 s after the last one left. */
  detach?: boolean | undefined
  signal?: AbortSignal | undefined
}

const SHELL: OptionNames<ShellOptions> = {
  ...{ cols: true, rows: true, shellId: true, argv: true, cwd: true, env: true },
  ...{ term: true, mode: true, offset: true, detach: true, signal: true },
}

/** What a shell had written before it was joined, as offsets of its output, and the size that this was drawn for. */
export type Replay = { from: number; to: number; cols: number | undefined; rows: number | undefined }

/** An interactive shell on a PTY. It can be left and joined again; a dropped connection is mended underneath. */
export class Shell {
  readonly shellId: string
  readonly input: Stdin
  readonly output: Output
  readonly exit: Promise<Exit>
  /** Undefined for a shell that is new: nothing comes of an earlier one. */
  readonly replay: Replay | undefined
  readonly #attachment: Attachment
  readonly #viewer: boolean
  #size: Size | undefined
  #sizeOwner: boolean

  constructor(attachment: Attachment, { first, size, viewer }: { first: ReadyFrame | undefined; size: Size | undefined; viewer: boolean }) {
    this.#attachment = attachment
    this.#size = size
    this.#viewer = viewer
    this.shellId = attachment.id
    this.replay = first?.attached ? replayOf(first) : undefined
    this.#sizeOwner = first?.size_owner === true
    this.input = stdinOf(attachment)
    this.output = attachment.stdout
    this.exit = attachment.exit
    attachment.onReady = (frame) => this.#onReady(frame)
  }

  /** True when it was there before. */
  get joined(): boolean {
    return this.replay !== undefined
  }

  /** Whether the terminal had this client's size when it was last connected to; else another's, until `resize` claims it. */
  get sizeOwner(): boolean {
    return this.#sizeOwner
  }

  /** Bytes of a key press or of a paste. Rejects with `CAPABILITY_DENIED` for a viewer. */
  write(data: string | Uint8Array): Promise<void> {
    return this.input.write(data)
  }

  /** Tells the size. Counts for the client that owns it; `claim` takes that over. */
  resize(cols: number, rows: number, options: { claim?: boolean } = {}): void {
    this.#size = { cols, rows }
    if (!this.#viewer) this.#attachment.send({ type: 'resize', cols, rows, ...options })
  }

  /** Ends the shell and what runs in it. */
  close(): void {
    this.#attachment.send({ type: 'close' })
  }

  /** Leaves the shell running. `exit` rejects with `DETACHED`. */
  detach(): { shellId: string; offset: number } {
    this.#attachment.detach()
    return { shellId: this.shellId, offset: this.#attachment.stdout.consumed }
  }

  /** The window may have changed while the connection was away; this also lets full-screen programs draw again. */
  #onReady({ size_owner }: ReadyFrame): void {
    this.#sizeOwner = size_owner === true
    if (this.#size !== undefined && !this.#viewer) this.#attachment.send({ type: 'resize', ...this.#size })
  }
}

const replayOf = ({ stdout, cols, rows }: ReadyFrame): Replay => ({
  from: stdout.offset,
  to: Math.max(stdout.offset, stdout.end ?? stdout.offset),
  cols,
  rows,
})

export const openShell = async (dataplane: Dataplane, options: ShellOptions = {}): Promise<Shell> => {
  refuseUnknown('shell', options, SHELL)
  const { cols, rows, argv, cwd, env, term, mode, detach } = options
  const id = options.shellId ?? crypto.randomUUID()
  const attachment = new Attachment(
    dataplane,
    {
      route: '/shell/ws',
      id,
      start: { shell_id: id, cols, rows, argv, cwd, env, term, mode, detach },
      reattach: { mode },
      from: { stdout: options.offset ?? 'oldest' },
    },
    options.signal,
  )
  const first = await Promise.race([attachment.ready, attachment.exit])
  const size = cols === undefined || rows === undefined ? undefined : { cols, rows }
  return new Shell(attachment, { first: 'attached' in first ? first : undefined, size, viewer: mode === 'viewer' })
}
