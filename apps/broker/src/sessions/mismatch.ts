import { BoxofficeError, type Profile } from '@boxoffice/protocol'
import { noSession } from '../domain/refusals.ts'
import type { LiveSession, PlacedSession } from '../domain/session.ts'
import type { NegotiateRequest } from './negotiate-request.ts'

/** A live session keeps its profile; the caller learns of a difference, or is refused when it asked for that [C-76]. */
export function profileMismatches(session: LiveSession, profile: Profile | null, { onMismatch }: NegotiateRequest): string[] {
  if (profile === null) return []
  const differs =
    session.profile.name !== profile.name
      ? 'profile_differs'
      : JSON.stringify(session.profile) === JSON.stringify(profile)
        ? null
        : 'profile_changed'
  if (differs === null) return []
  if (onMismatch === 'fail') throw mismatch(session, differs, `profile "${session.profile.name}"`)
  return [differs]
}

/** The same for the provider, and for a hint at a sandbox that is not the scope's [C-22]; both show when the sandbox is there. */
export function placementMismatches(session: PlacedSession, { mode, provider, sandboxHint, onMismatch }: NegotiateRequest): string[] {
  const warnings: string[] = []
  if (provider !== null && provider !== session.provider) {
    if (onMismatch === 'fail') throw mismatch(session, 'provider_differs', `provider "${session.provider}"`)
    warnings.push('provider_differs')
  }
  if (sandboxHint !== null && sandboxHint !== session.sandboxId) {
    if (mode === 'get') throw noSession('sandbox_hint: is not the sandbox of this scope; leave it out to attach to the one that is')
    warnings.push('sandbox_hint_ignored')
  }
  return warnings
}

/** The refusal with `on_mismatch: "fail"`. */
export const mismatch = (session: LiveSession, differs: string, has: string): BoxofficeError =>
  new BoxofficeError('BINDING_CONFLICT', `on_mismatch: the live session has ${has} (${differs}); release it first`, {
    details: { mismatch: differs, session_id: session.id },
  })
