/**
 * Where a managed process is, over all of its runs, without clock or I/O:
 *
 *   starting ─started─▶ running
 *    ▲    │               │
 *    │    └────ended──────┴──▶ waiting ─stopped─▶ exited
 *    └──────restarting────────────┘                 ▲
 *         ended, and not started again ─────────────┘
 *
 * `endedAt` is monotonic, in milliseconds.
 */
export type RunState =
  /** The supervisor has been asked for a run. */
  | { readonly name: 'starting' }
  | { readonly name: 'running' }
  /** For its next start. */
  | { readonly name: 'waiting'; readonly endedAt: number; readonly restartInMs: number }
  | { readonly name: 'exited'; readonly endedAt: number }

export type RunEvent =
  | { type: 'started' }
  /** Its run is over. `restartInMs`: when it is started again; null for never. */
  | { type: 'ended'; at: number; restartInMs: number | null }
  | { type: 'restarting' }
  /** Somebody has asked for its end, and there is no run to kill. */
  | { type: 'stopped' }

/** The state after the event; undefined where the event is impossible in this state. */
export const afterEvent = (state: RunState, event: RunEvent): RunState | undefined => {
  switch (event.type) {
    case 'started':
      return state.name === 'starting' ? { name: 'running' } : undefined
    case 'ended':
      return state.name === 'starting' || state.name === 'running' ? endedState(event.at, event.restartInMs) : undefined
    case 'restarting':
      return state.name === 'waiting' ? { name: 'starting' } : undefined
    case 'stopped':
      return state.name === 'waiting' ? { name: 'exited', endedAt: state.endedAt } : undefined
  }
}

/** The state of a process whose run has ended. */
export const endedState = (endedAt: number, restartInMs: number | null): RunState =>
  restartInMs === null ? { name: 'exited', endedAt } : { name: 'waiting', endedAt, restartInMs }
