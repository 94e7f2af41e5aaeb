import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { LIMITS } from '@boxoffice/protocol'
import { getRequestListener } from '@hono/node-server'
import { expect, onTestFinished, test } from 'vitest'
import type { VerifyControlToken } from '../../src/auth/control-auth.ts'
import { createRevocationStore } from '../../src/auth/revocations.ts'
import { createControlApp } from '../../src/control/control.ts'
import { createExposedPorts } from '../../src/preview/exposed-ports.ts'
import type { SandboxManager } from '../../src/sandboxes/manager.ts'
import { silent } from '../host/support/host.ts'

/** Posts one revocation in a body of that many bytes; tells the status, and whether it is in force. */
const post = async (bytes: number, length: 'told' | 'chunked'): Promise<{ status: number | undefined; denied: string | undefined }> => {
  const revocations = createRevocationStore(() => 0)
  const verify = (async () => ({})) as unknown as VerifyControlToken
  const app = createControlApp({
    exposed: createExposedPorts({ ask: async () => null }),
    manager: {} as SandboxManager,
    revocations,
    onKeys: async () => {},
    untold: () => undefined,
    instance: { install_id: 'of-this-test', instance_id: '0123456789ab' },
    verify,
    log: silent,
  })
  const server = createServer(getRequestListener(app.fetch)).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close().closeAllConnections())
  await once(server, 'listening')
  const body = JSON.stringify({ sessions: [{ session_id: 'ssn_1', reason: 'released', until: 1 }], tokens: [] }).padEnd(bytes)
  const headers = { authorization: 'Bearer x', 'content-type': 'application/json' }
  const sent = request({
    ...{ port: (server.address() as AddressInfo).port, method: 'POST', path: '/control/v1/revocations' },
    headers: length === 'told' ? { ...headers, 'content-length': bytes } : { ...headers, 'transfer-encoding': 'chunked' },
  })
  sent.end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  response.resume()
  return { status: response.statusCode, denied: revocations.deniedSession('ssn_1') }
}

test.each(['told', 'chunked'] as const)('[C-80] a body of the control API is at most 64 KiB, its length being %s', async (length) => {
  expect(await post(LIMITS.controlBodyBytes, length)).toEqual({ status: 204, denied: 'released' })
  expect(await post(LIMITS.controlBodyBytes + 1, length)).toEqual({ status: 413, denied: undefined })
})
