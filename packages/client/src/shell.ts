import type { Dataplane } from './dataplane.ts'
import type { Exit } from './exec-result.ts'
import { type Output, type Stdin, stdinOf } from './run.ts'
import { Attachment } from './stream/attachment.ts'

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
  /** Where to begin when joining; `end` for what comes from now on. */
  offset?: number | 'end' | undefined
  /** Lets the shell live without a client. Else it ends 300 s after the last one left. */
  detach?: boolean | undefined
  signal?: AbortSignal | undefined
}

/** An interactive shell on a PTY. It can be left and joined again; a dropped connection is mended underneath. */
export class Shell {
  readonly shellId: string
  readonly input: Stdin
  readonly output: Output
  readonly exit: Promise<Exit>
  /** True when it was there before. */
  readonly joined: boolean
  readonly #attachment: Attachment
  #size: { cols: number; rows: number } | undefined

  constructor(attachment: Attachment, joined: boolean, size: { cols: number; rows: number } | undefined) {
    this.#attachment = attachment
    this.#size = size
    this.shellId = attachment.id
    this.joined = joined
    this.input = stdinOf(attachment)
    this.output = attachment.stdout
    this.exit = attachment.exit
    // The window may have changed while the connection was away; this also lets full-screen programs draw again.
    attachment.onReady = () => this.#size && attachment.send({ type: 'resize', ...this.#size })
  }

  /** Bytes of a key press or of a paste. */
  write(data: string | Uint8Array): Promise<void> {
    return this.input.write(data)
  }

  /** Tells the size. Counts for the client that owns it; `claim` takes that over. */
  resize(cols: number, rows: number, options: { claim?: boolean } = {}): void {
    this.#size = { cols, rows }
    this.#attachment.send({ type: 'resize', cols, rows, ...options })
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
}

export const openShell = async (dataplane: Dataplane, options: ShellOptions = {}): Promise<Shell> => {
  const { cols, rows, argv, cwd, env, term, mode, detach } = options
  const id = options.shellId ?? crypto.randomUUID()
  const attachment = new Attachment(
    dataplane,
    {
      route: '/shell/ws',
      id,
      start: { shell_id: id, cols, rows, argv, cwd, env, term, mode, detach },
      reattach: { mode },
      from: { stdout: options.offset },
    },
    options.signal,
  )
  const first = await Promise.race([attachment.ready, attachment.exit])
  const size = cols === undefined || rows === undefined ? undefined : { cols, rows }
  return new Shell(attachment, 'attached' in first && first.attached, size)
}
