import { type ListPortsResponse, PORT_LIMITS } from '@boxoffice/protocol'
import type { Call } from '../http/call.ts'
import { sendJson } from '../http/responses/respond.ts'
import type { Route } from '../http/router.ts'
import { listeningPorts } from '../supervisor/tunnel.ts'

const listPorts = async ({ outgoing, sandbox, signal }: Call): Promise<void> => {
  await sandbox.ready(signal)
  const ports = (await listeningPorts(sandbox.link)).filter((port) => port >= PORT_LIMITS.first)
  sendJson(outgoing, 200, { ports: ports.map((port) => ({ port })) } satisfies ListPortsResponse)
}

export const portRoutes: readonly Route[] = [{ method: 'GET', path: 'ports', requires: 'ports', handler: listPorts }]
