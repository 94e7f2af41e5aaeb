import type { EndCause } from '../../sandbox/end.ts'

/**
 * The life of a sandbox at its agent, without engine, clock or I/O:
 *
 *   starting ─started─▶ running ─frozen─▶ frozen
 *      │                 │ ▲ ▲──woken───────┘ │
 *      │                 │ └──woken───────────┼────────────┐
 *      │                 └─stopping─▶ stopping ─stopped─▶ stopped
 *      │                              ▲───────┘
 *      └─adopted─▶ running, frozen, stopped          lost ◀─ every phase but stopping
 *
 * `ending` stands beside the phase, because an end begins in any of them and the phase still changes beneath it: a frozen sandbox is
 * woken so that its processes get their TERM.
 */
export type Life = Phase & { readonly ending?: EndCause }

type Phase =
  /** The engine makes it, or its supervisor has not dialled yet. */
  | { readonly name: 'starting' }
  | { readonly name: 'running' }
  | { readonly name: 'frozen' }
  /** Its processes get their end; the supervisor starts nothing more. */
  | { readonly name: 'stopping' }
  | { readonly name: 'stopped' }
  | { readonly name: 'lost'; readonly reason: string }

export type LifeEvent =
  /** The engine has made it and its supervisor has dialled. */
  | { type: 'started' }
  /** An earlier run of the agent left it in this state. */
  | { type: 'adopted'; as: 'running' | 'frozen' | 'stopped' }
  | { type: 'frozen' }
  /** A stop begins; a frozen one has been resumed for it. */
  | { type: 'stopping' }
  | { type: 'stopped' }
  | { type: 'woken' }
  /** Somebody has asked for its end; the last one who asks says why. */
  | { type: 'ending'; cause: EndCause }
  /** The engine does not have it any more. */
  | { type: 'lost'; reason: string }

export const STARTING: Life = { name: 'starting' }

/** The life after the event; undefined where the event is impossible in this phase. */
export const afterEvent = (life: Life, event: LifeEvent): Life | undefined => {
  if (event.type === 'ending') return { ...life, ending: event.cause }
  const phase = nextPhase(life, event)
  if (phase === undefined) return undefined
  return life.ending === undefined ? phase : { ...phase, ending: life.ending }
}

const nextPhase = ({ name }: Life, event: Exclude<LifeEvent, { type: 'ending' }>): Phase | undefined => {
  switch (event.type) {
    case 'started':
      return name === 'starting' ? { name: 'running' } : undefined
    case 'adopted':
      return name === 'starting' ? { name: event.as } : undefined
    case 'frozen':
      return name === 'running' ? { name: 'frozen' } : undefined
    case 'stopping':
      return name === 'running' || name === 'frozen' ? { name: 'stopping' } : undefined
    case 'stopped':
      return name === 'stopping' ? { name: 'stopped' } : undefined
    case 'woken':
      return name === 'frozen' || name === 'stopped' ? { name: 'running' } : undefined
    case 'lost':
      return name === 'stopping' || name === 'lost' ? undefined : { name: 'lost', reason: event.reason }
  }
}

/** Whether its supervisor is there and awake. */
export const isAwake = ({ name }: Life): boolean => name === 'running' || name === 'stopping'

/** Whether it was suspended, and `resume` wakes it. */
export const isAsleep = (life: Life): life is Life & { name: 'frozen' | 'stopped' } => life.name === 'frozen' || life.name === 'stopped'

/** As reports show it: a sandbox that stops runs until its processes have ended. */
export const reportedState = ({ name }: Life): Exclude<Life['name'], 'stopping'> => (name === 'stopping' ? 'running' : name)
