import type { McpServerRow, McpServerStore } from '../../mcp-server-store.ts'
import type { Database } from '../engine/database.ts'
import { lockNamed } from '../engine/locks.ts'

type Row = {
  name: string
  configured: number
  ending: number
  sealed: string
  kek_id: string
  owner: string | null
  owner_url: string | null
  held: boolean
  info: string | null
  session_id: string | null
}

export function postgresMcpServers({ read, once, write }: Database): McpServerStore {
  return {
    list: async () => (await read.rows<Row>(`${SELECT} ORDER BY name`)).map(toMcpServer),
    find: async (name) => (await read.rows<Row>(`${SELECT} WHERE name = $1`, [name])).map(toMcpServer)[0],
    add: ({ name, sealed, kekId }, lease, most) =>
      write(async (tx) => {
        await lockNamed(tx, 'mcp servers')
        const [known] = await tx.rows<{ count: number; taken: boolean }>(COUNT, [name])
        if (known?.taken) return 'exists'
        if ((known?.count ?? 0) >= most) return 'full'
        await tx.run(ADD, [name, sealed, kekId, lease?.owner ?? null, lease?.ownerUrl ?? null, lease?.leaseMs ?? 0])
        return 'added'
      }),
    configure: async ({ name, sealed, kekId }) => {
      await once.run(CONFIGURE, [name, sealed, kekId])
    },
    claim: async (names, { owner, ownerUrl, leaseMs }) =>
      names.length === 0 ? [] : (await once.rows<{ name: string }>(CLAIM, [owner, ownerUrl, leaseMs, names])).map(({ name }) => name),
    renew: async (owner, leaseMs, reports) => {
      const told = JSON.stringify(reports.map(({ name, info, sessionId }) => ({ name, info, session_id: sessionId })))
      return (await once.rows<{ name: string }>(RENEW, [owner, leaseMs, told])).map(({ name }) => name)
    },
    end: async (names) => {
      await once.run('UPDATE mcp_servers SET ending = 1 WHERE name = ANY($1)', [names])
    },
    remove: async (name, owner) => {
      await once.run('DELETE FROM mcp_servers WHERE name = $1 AND owner = $2 AND ending = 1', [name, owner])
    },
    release: async (owner) => {
      await once.run('UPDATE mcp_servers SET owner = NULL, owner_url = NULL, lease_until = 0 WHERE owner = $1', [owner])
    },
    reseal: async (name, before, { sealed, kekId }) => (await once.run(RESEAL, [sealed, kekId, name, before])) === 1,
  }
}

/** Of the moment of the statement: brokers hold leases by the database's clock alone. */
const NOW = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint'
const SELECT = `SELECT name, configured, ending, sealed, kek_id, owner, owner_url, info, session_id,
  owner IS NOT NULL AND lease_until > ${NOW} AS held FROM mcp_servers`
const COUNT = 'SELECT count(*) AS count, coalesce(bool_or(name = $1), false) AS taken FROM mcp_servers'
const ADD = `INSERT INTO mcp_servers (name, configured, ending, sealed, kek_id, owner, owner_url, lease_until)
  VALUES ($1, 0, 0, $2, $3, $4, $5, ${NOW} + $6::bigint)`
const CONFIGURE = `INSERT INTO mcp_servers (name, configured, ending, sealed, kek_id, lease_until) VALUES ($1, 1, 0, $2, $3, 0)
  ON CONFLICT (name) DO UPDATE SET configured = 1, ending = 0, sealed = excluded.sealed, kek_id = excluded.kek_id`
// What the last owner told is not so any more.
const CLAIM = `UPDATE mcp_servers SET owner = $1, owner_url = $2, lease_until = ${NOW} + $3::bigint, info = NULL
  WHERE name = ANY($4) AND (owner IS NULL OR lease_until <= ${NOW}) RETURNING name`
const RENEW = `UPDATE mcp_servers s
  SET lease_until = ${NOW} + $2::bigint, info = coalesce(t.info, s.info), session_id = coalesce(t.session_id, s.session_id)
  FROM json_to_recordset($3::json) AS t (name text, info text, session_id text)
  WHERE s.name = t.name AND s.owner = $1 RETURNING s.name`
const RESEAL = 'UPDATE mcp_servers SET sealed = $1, kek_id = $2 WHERE name = $3 AND sealed = $4'

const toMcpServer = (row: Row): McpServerRow => ({
  name: row.name,
  isConfigured: row.configured === 1,
  isEnding: row.ending === 1,
  sealed: row.sealed,
  kekId: row.kek_id,
  owner: row.owner,
  ownerUrl: row.owner_url,
  isHeld: row.held,
  info: row.info,
  sessionId: row.session_id,
})
