import { PROCESS_LIMITS, SUBPROTOCOL_LINES, SUBPROTOCOL_MCP } from '@boxoffice/protocol'
import { WebSocketServer } from 'ws'
import { Query } from '../../http/query.ts'
import type { AttachLease, LeaseHolder } from '../../sandbox/managed-processes.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { PreparedSocket, SocketOptions } from '../session/prepared-socket.ts'
import { type LineStart, nextStart, startAt } from './line-start.ts'
import { ProcessSocket } from './process-socket.ts'

/** The path of a managed process's socket. */
export const PROCESS_SOCKET = 'processes/:id/ws'
const ROUTE = new RegExp(`^${PROCESS_SOCKET.replace(':id', '([^/]+)')}$`)
/** Control frames and a line's newline come on top. */
const MAX_MESSAGE_BYTES = PROCESS_LIMITS.lineBytes + 1024

/** The id in the path of a managed process's socket. */
export const processIn = (path: string): string | undefined => ROUTE.exec(path)?.[1]

export const lineServer = (): WebSocketServer =>
  new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE_BYTES,
    handleProtocols: (offered) => [SUBPROTOCOL_LINES, SUBPROTOCOL_MCP].find((name) => offered.has(name)) ?? false,
  })

/** What is settled before the upgrade: the lease, and where on stdout its client begins. */
type Leased = LineStart & { lease: AttachLease }

/** Takes the process's one lease, or throws why not [2-64, 2-66]. */
const leaseOf = async (sandbox: Sandbox, processId: string, search: string, holder: LeaseHolder): Promise<Leased> => {
  const query = new Query(search)
  const takeover = query.flag('takeover', false)
  const asked = query.integer('stdout_offset', { min: 0, max: Number.MAX_SAFE_INTEGER, fallback: -1 })
  const { processes } = sandbox
  const options = { takeover, run: query.get('run'), resumes: asked !== -1 }
  if (options.resumes) {
    // Before the lease is taken: the present holder is not sent away for a client that is refused.
    const run = processes.attachable(processId, options)
    const start = await startAt(sandbox, run, asked)
    return { lease: processes.attach(processId, holder, { ...options, run }), ...start }
  }
  const lease = processes.attach(processId, holder, options)
  try {
    return { lease, ...(await nextStart(sandbox, lease.run, lease.position)) }
  } catch (error) {
    // Its client may be back in a moment, and must find its place.
    lease.leave({ written: lease.before, lost: true })
    throw error
  }
}

/**
 * The lease of a managed process for a socket that is still to be upgraded; throws where there is nothing to attach to [2-66].
 * `takenOver`: another one has taken the lease before the upgrade.
 */
export const prepareProcess = async (
  options: SocketOptions,
  { processId, search, takenOver }: { processId: string; search: string; takenOver: () => void },
): Promise<PreparedSocket> => {
  let client: ProcessSocket | undefined
  const holder = { takenOver: () => (client === undefined ? takenOver() : client.takenOver()) }
  const leased = await leaseOf(options.sandbox, processId, search, holder)
  const { lease } = leased
  return {
    kind: 'process',
    discard: () => lease.leave({ written: lease.before, lost: true }),
    socket(ws) {
      client = new ProcessSocket({ ...options, ...leased, ws, control: ws.protocol === SUBPROTOCOL_LINES })
      return client
    },
  }
}
