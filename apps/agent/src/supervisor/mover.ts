import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'

/** What came of it. `nothing`: not a byte has been taken, because this host cannot. The others say whose end broke it off. */
export type Moved = 'all' | 'nothing' | 'source' | 'sink' | 'stalled' | 'broken'

/** Exit codes of `supervisor --move` (WIRE.md). */
const OUTCOMES: Readonly<Record<number, Moved>> = { 0: 'all', 2: 'nothing', 3: 'nothing', 4: 'source', 5: 'sink', 6: 'stalled' }

export type Move = {
  /** Nobody reads it meanwhile. */
  from: Socket
  /** A channel to which nobody writes meanwhile; everything written before has left. */
  to: Socket
  bytes: number
  /** Given up when nothing moves for so long. */
  patienceMs: number
}

/** A process that moves bytes from one connection to another in the kernel: several times as fast as through this one. */
export class Mover {
  readonly #child: ChildProcess
  readonly moved: Promise<Moved>

  constructor(supervisorPath: string, { from, to, bytes, patienceMs }: Move) {
    this.#child = spawn(supervisorPath, ['--move', String(bytes), String(patienceMs)], {
      // Not as 0 to 2: there they would be made to block, and they stay ours too.
      stdio: ['ignore', 'ignore', 'ignore', from, to],
      env: {},
      cwd: '/',
    })
    // Node stops reading what a child is given; the answer comes on this one.
    to.resume()
    this.moved = new Promise((resolve) => {
      this.#child.on('error', () => resolve('nothing'))
      this.#child.on('exit', (code) => resolve(code === null ? 'broken' : (OUTCOMES[code] ?? 'broken')))
    })
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}
