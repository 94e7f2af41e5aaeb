import type { Ready } from '../supervisor/payloads.ts'
import type { Place, Size } from './attachments.ts'

export type TerminalSizeOptions = {
  /** What the client's window has, if it said so. */
  wanted: Size | undefined
  resize: (size: Size) => void
}

/** Programs are told of a size that is one row off, until they have begun to draw for it; those that do not draw get this long. */
const NUDGE_MS = 500
/** From a program's first output to its having read the size. */
const SETTLE_MS = 20

/**
 * One socket's part in the size of a shared terminal (contract 3.5): sets it while it owns it, and has the screen drawn anew for
 * whoever comes to it late.
 */
export class TerminalSize {
  readonly #resize: (size: Size) => void
  #wanted: Size | undefined
  #place: Place | undefined
  /** The screen is drawn anew when the replay has been sent up to here. */
  #redrawAt = Number.POSITIVE_INFINITY
  /** While the terminal has a size that is one row off. */
  #nudge: { timer: NodeJS.Timeout; settling: boolean } | undefined

  constructor({ wanted, resize }: TerminalSizeOptions) {
    this.#wanted = wanted
    this.#resize = resize
  }

  /** The process is there. `asked` is where this client wanted its output to begin. */
  joined(place: Place, { owns, ready, asked }: { owns: boolean; ready: Ready; asked: number | 'end' }): void {
    const { pty, stdout } = ready
    if (!pty) return
    this.#place = place
    // A nudge of somebody else's is not the size that holds.
    place.size ??= { cols: pty.cols, rows: pty.rows }
    if (ready.ended) return
    if (!ready.attached) return this.owned()
    const complete = asked !== 'end' && stdout.offset <= asked
    if (!owns && complete) return
    this.#redrawAt = stdout.end
    this.sent(stdout.offset)
  }

  /** The client has been sent everything up to `offset`. */
  sent(offset: number): void {
    if (this.#nudge !== undefined && !this.#nudge.settling) this.#settle()
    if (offset < this.#redrawAt) return
    this.#redrawAt = Number.POSITIVE_INFINITY
    const owner = this.#place?.owner
    if (owner === undefined) this.redraw()
    else owner.redraw()
  }

  /** The client's window has another size; it counts if this socket owns the terminal's. */
  want(size: Size, owns: boolean): void {
    this.#wanted = size
    if (!owns) return
    const { size: current } = this.#place ?? {}
    // A nudge ends with that size by itself, and in its own time.
    const nudgedBack = this.#nudge !== undefined && current?.cols === size.cols && current.rows === size.rows
    if (!nudgedBack) this.#set(size)
  }

  /** This socket's size counts from now on. */
  owned(): void {
    const { size } = this.#place ?? {}
    if (this.#wanted !== undefined && (this.#wanted.cols !== size?.cols || this.#wanted.rows !== size.rows)) this.#set(this.#wanted)
  }

  /** Only a change makes programs draw everything: the size is set, by way of another one where it is the same. */
  redraw(): void {
    const { size } = this.#place ?? {}
    if (size === undefined || this.#nudge !== undefined) return
    const wanted = this.#wanted ?? size
    if (wanted.cols !== size.cols || wanted.rows !== size.rows) return this.#set(wanted)
    this.#resize({ cols: size.cols, rows: size.rows > 1 ? size.rows - 1 : 2 })
    this.#nudge = { timer: setTimeout(() => this.#restore(), NUDGE_MS), settling: false }
  }

  dispose(): void {
    if (this.#nudge !== undefined) this.#restore()
    this.#place = undefined
  }

  /** Both sizes at once would be none to a program that has not looked between them. */
  #settle(): void {
    clearTimeout(this.#nudge?.timer)
    this.#nudge = { timer: setTimeout(() => this.#restore(), SETTLE_MS), settling: true }
  }

  #restore(): void {
    if (this.#place?.size !== undefined) this.#set(this.#place.size)
  }

  #set(size: Size): void {
    clearTimeout(this.#nudge?.timer)
    this.#nudge = undefined
    if (this.#place !== undefined) this.#place.size = size
    this.#resize(size)
  }
}
