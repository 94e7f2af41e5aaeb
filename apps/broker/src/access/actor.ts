import { type Actor, BoxofficeError } from '@boxoffice/protocol'
import { hasRight, type Principal } from './principals.ts'

/**
 * The actor of a request. It is a claim, not a credential: who names somebody else needs the right `act_as`. Without one it is
 * the caller, of the type that its key or token says [C-05].
 */
export function resolveActor(principal: Principal, actor: Actor | undefined): Actor {
  if (actor === undefined) return { type: principal.actorType, id: principal.id }
  if (actor.id !== principal.id && !hasRight(principal, 'act_as'))
    throw new BoxofficeError(
      'FORBIDDEN',
      'actor.id: must be the authenticated subject; to act for somebody else takes a key with the right "act_as"',
      { details: { field: 'actor.id' } },
    )
  return { type: actor.type, id: actor.id }
}
