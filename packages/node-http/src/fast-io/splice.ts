import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { isFast } from './switches.ts'

/**
 * What came of it. `nothing`: not a byte has been taken, because this host cannot. The others say whose end broke it off; `sink`
 * also where the operation has ended, which says why itself.
 */
export type SpliceOutcome = 'all' | 'nothing' | 'source' | 'sink' | 'stalled' | 'broken'

/** Exit codes of `supervisor --splice-frames` and `--splice-bytes` (WIRE.md); 2 is that of one which does not know them yet. */
const OUTCOMES: Readonly<Record<number, SpliceOutcome>> = { 0: 'all', 2: 'nothing', 3: 'nothing', 4: 'source', 5: 'sink', 6: 'stalled' }

/** From so many bytes on, the rest of a body is worth the start of a process. */
export const LARGE_BODY_BYTES = 32 * 1024 * 1024

/** A client needs nothing but patience to keep one; what comes beyond them passes through the agent. */
const MAX_SPLICES = 16

export type SpliceOptions = {
  /** Nobody reads it meanwhile. */
  from: Socket
  /** Nobody writes to it meanwhile; everything written before has left. */
  to: Socket
  /** As `stdin` frames of a channel, or as they are. */
  as: 'frames' | 'bytes'
  bytes: number
  /** Given up when nothing moves for so long. */
  patienceMs: number
}

let running = 0

/** A process that moves bytes from one connection to another in the kernel: several times as fast as through this one. */
export class Splice {
  readonly outcome: Promise<SpliceOutcome>
  #child: ChildProcess | undefined

  constructor(supervisorPath: string, options: SpliceOptions) {
    try {
      this.#child = start(supervisorPath, options)
    } catch {
      // A connection that is just gone, or a host that is out of everything.
      this.outcome = Promise.resolve('nothing')
      return
    }
    running++
    this.outcome = ended(this.#child).finally(() => running--)
  }

  static get available(): boolean {
    return running < MAX_SPLICES && isFast('splice')
  }

  kill(): void {
    this.#child?.kill('SIGKILL')
  }
}

const start = (supervisorPath: string, { from, to, as, bytes, patienceMs }: SpliceOptions): ChildProcess => {
  const child = spawn(supervisorPath, [as === 'frames' ? '--splice-frames' : '--splice-bytes', String(bytes), String(patienceMs)], {
    // Not as 0 to 2: there they would be made to block, and they stay ours too.
    stdio: ['ignore', 'ignore', 'ignore', from, to],
    env: {},
    cwd: '/',
    // What a terminal sends to us is not for it: it has our time to drain.
    detached: true,
  })
  // Node stops reading what a child is given; the response comes on this one.
  to.resume()
  return child
}

const ended = (child: ChildProcess): Promise<SpliceOutcome> =>
  new Promise((resolve) => {
    child.on('error', () => {
      if (child.pid === undefined) resolve('nothing')
    })
    child.on('exit', (code) => {
      if (code === null) resolve(child.killed ? 'sink' : 'broken')
      else resolve(OUTCOMES[code] ?? 'broken')
    })
  })
