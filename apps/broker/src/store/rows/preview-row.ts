import type { PreviewAccess, PreviewHostMode } from '@boxoffice/protocol'
import type { ExposedPortRecord } from '../preview-store.ts'

/** One row of `exposed_ports`; `embed_origins` is a JSON array. */
export type ExposedPortRow = {
  label: string
  tenant: string
  session_id: string
  incarnation: number
  port: number
  access: string
  host: string
  embed_origins: string
  created_by: string
  created_at: number
  expires_at: number | null
}

export const toExposedPort = (row: ExposedPortRow): ExposedPortRecord => ({
  label: row.label,
  tenant: row.tenant,
  sessionId: row.session_id,
  incarnation: row.incarnation,
  port: row.port,
  access: row.access as PreviewAccess,
  host: row.host as PreviewHostMode,
  embedOrigins: JSON.parse(row.embed_origins) as string[],
  createdBy: row.created_by,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
})

export const toExposedPortRow = (exposed: ExposedPortRecord): ExposedPortRow => ({
  label: exposed.label,
  tenant: exposed.tenant,
  session_id: exposed.sessionId,
  incarnation: exposed.incarnation,
  port: exposed.port,
  access: exposed.access,
  host: exposed.host,
  embed_origins: JSON.stringify(exposed.embedOrigins),
  created_by: exposed.createdBy,
  created_at: exposed.createdAt,
  expires_at: exposed.expiresAt,
})
