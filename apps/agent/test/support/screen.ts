import xterm from '@xterm/headless'
import type { TestSocket } from './socket.ts'

type Size = { cols: number; rows: number }

/**
 * A real terminal without a window: what its screen shows of what a socket has brought. A replay was drawn for another size. Terminals
 * that can change theirs (`resized`) show it in that one; others (`fixed`) let the whole screen scroll again after it.
 */
export class Screen {
  readonly #terminal: xterm.Terminal
  readonly #socket: TestSocket
  readonly #size: Size
  readonly #kind: 'resized' | 'fixed'
  #fed = 0
  #replay: number

  constructor(socket: TestSocket, size: Size, kind: 'resized' | 'fixed' = 'fixed') {
    this.#socket = socket
    this.#size = size
    this.#kind = kind
    const ready = socket.find('ready')
    if (ready?.stdout.end === undefined) throw new Error('not ready')
    this.#replay = ready.stdout.end - ready.stdout.offset
    const { cols = size.cols, rows = size.rows } = kind === 'resized' ? ready : size
    this.#terminal = new xterm.Terminal({ cols, rows, allowProposedApi: true, scrollback: 0 })
    if (this.#replay === 0) this.#terminal.resize(size.cols, size.rows)
    // It answers what programs ask of it, as any terminal does.
    this.#terminal.onData((answer) => socket.stdin(answer))
  }

  /** The screen's lines without the blanks at their ends, and where the cursor is. */
  async show(): Promise<string> {
    const pieces = this.#socket.output.stdout.slice(this.#fed)
    this.#fed += pieces.length
    const bytes = Buffer.concat(pieces)
    const replayed = bytes.subarray(0, this.#replay)
    if (replayed.length > 0) await this.#replayed(replayed)
    await this.#write(bytes.subarray(replayed.length))
    const { active: buffer } = this.#terminal.buffer
    const lines = Array.from({ length: this.#terminal.rows }, (_, row) => buffer.getLine(buffer.baseY + row)?.translateToString(true) ?? '')
    return [...lines, `cursor ${buffer.cursorX},${buffer.cursorY}`].join('\n')
  }

  /** Shows it as soon as it fits; fails with what it shows instead. */
  async until(fits: (shown: string) => boolean, withinMs = 60_000): Promise<string> {
    const end = performance.now() + withinMs
    for (;;) {
      const shown = await this.show()
      if (fits(shown)) return shown
      if (performance.now() > end) throw new Error(`not within ${withinMs} ms; the screen shows:\n${shown}`)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }

  async #replayed(bytes: Buffer): Promise<void> {
    await this.#write(bytes)
    this.#replay -= bytes.length
    if (this.#replay > 0) return
    if (this.#kind === 'resized') this.#terminal.resize(this.#size.cols, this.#size.rows)
    else await this.#write('\x1b7\x1b[r\x1b8')
  }

  #write(data: string | Buffer): Promise<void> {
    return new Promise((resolve) => this.#terminal.write(data, resolve))
  }
}
