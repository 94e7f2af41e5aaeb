import type { PreviewAccess, PreviewHostMode } from '@boxoffice/protocol'
import type { AuditEntry } from '../domain/audit-entry.ts'
import type { NewSessionEvent } from '../domain/session-event.ts'

/** A port of one incarnation of a session's sandbox that has a host of its own. Times in milliseconds. */
export type ExposedPortRecord = {
  /** Part of the host's name; no other port ever has it. */
  label: string
  tenant: string
  sessionId: string
  incarnation: number
  port: number
  access: PreviewAccess
  host: PreviewHostMode
  embedOrigins: readonly string[]
  /** Who exposed it, or changed it last. */
  createdBy: string
  createdAt: number
  /** Null: with its session. */
  expiresAt: number | null
}

/** A link's code by its SHA-256; the code itself is shown once and never kept. */
export type PreviewCode = { hash: string; label: string; actor: string; createdAt: number; expiresAt: number }

/** What is written with a change of a session's ports, in its transaction. */
export type WrittenWithPorts = { audit: readonly AuditEntry[]; events: readonly NewSessionEvent[] }

export type ExposeOutcome = { outcome: 'exposed'; port: ExposedPortRecord } | { outcome: 'full' } | { outcome: 'ended' }

/** Exposed ports and the codes of links to them. The ports of a session go with its end. */
export interface PreviewStore {
  /**
   * Exposes a port of a live session that has fewer than `most`; one that is exposed already keeps its label and is changed. What
   * earlier incarnations exposed goes. With another outcome than `exposed` nothing is written.
   */
  expose(wanted: ExposedPortRecord, most: number, written: WrittenWithPorts): Promise<ExposeOutcome>
  /** False, and nothing is written, where the port is not exposed. */
  withdraw(sessionId: string, port: number, written: WrittenWithPorts): Promise<boolean>
  byLabel(label: string): Promise<ExposedPortRecord | undefined>
  /** By their numbers. */
  ofSession(sessionId: string): Promise<ExposedPortRecord[]>
  /** Those that are too old by `now` go. */
  addCode(code: PreviewCode, now: number): Promise<void>
  /** Takes a code of this label, once; gives whose it was, and since when. Undefined, and it stays, for another label. */
  takeCode(hash: string, label: string, now: number): Promise<Pick<PreviewCode, 'actor' | 'createdAt'> | undefined>
}
