import { isLoopback } from '@boxoffice/kit/is-loopback'
import { BoxofficeError } from '@boxoffice/protocol'
import { modeNow } from '../agents/dataplane-mode.ts'
import type { PlacedSession } from '../domain/session.ts'
import type { ExposedPortRecord } from '../store/preview-store.ts'
import type { AgentRecord } from '../store/store.ts'

export type PreviewUrlOptions = {
  /** Where this broker is reached. */
  brokerUrl: string
  /**
   * Below it each exposed port has a host, with a port of the listener or without, unless its agent has a domain of its own; undefined:
   * `localhost`, where who serves is local.
   */
  domain: string | undefined
}

/** The origin of an exposed port, as browsers have it. Throws UNSUPPORTED where there is no domain for it. */
export type PreviewUrlOf = (exposed: ExposedPortRecord, session: PlacedSession, agent: AgentRecord) => string

/**
 * Made from what agent, broker and configuration say of themselves, never from a `Host` header. Without a domain it is that of
 * development: browsers find `*.localhost` on their own machine.
 */
export const previewUrls =
  ({ brokerUrl, domain }: PreviewUrlOptions): PreviewUrlOf =>
  ({ port, label }, session, agent) => {
    const name = `${port}-${label}`
    const mode = modeNow(session, agent)
    const below = (mode === 'direct' ? agent.previewDomain : null) ?? domain
    if (below !== undefined) return new URL(`${/(^|\.)localhost(:|$)/.test(below) ? 'http' : 'https'}://${name}.${below}`).origin
    const base = new URL(mode === 'relay' ? brokerUrl : agent.publicUrl)
    if (base.hostname !== 'localhost' && !isLoopback(base.hostname))
      throw new BoxofficeError(
        'UNSUPPORTED',
        'previews need a domain of their own here; set preview_domain (--preview-domain) of the broker or of the agent',
      )
    return new URL(`${base.protocol}//${name}.localhost:${base.port}`).origin
  }
