import { onTestFinished } from 'vitest'
import type { VerifyControlToken } from '../../../src/auth/control-auth.ts'
import { createControlApp } from '../../../src/control/control.ts'
import { createExposedPorts } from '../../../src/preview/exposed-ports.ts'
import { createLocalProvider } from '../../../src/providers/local/local.ts'
import { Host, silent } from '../../host/support/host.ts'

/** The control API of a host whose sandboxes are processes of this machine; any control token will do. It ends with the test. */
export const startControl = async () => {
  const host = await Host.start(({ path, installId }) =>
    createLocalProvider({ dataDirectory: path, installId, isolation: 'auto', log: silent }),
  )
  onTestFinished(() => host[Symbol.asyncDispose]())
  const { manager, revocations } = host
  const app = createControlApp({
    exposed: createExposedPorts({ ask: async () => null }),
    ...{ manager, revocations, onKeys: async () => {}, untold: () => undefined, log: silent },
    instance: { install_id: host.installId, instance_id: '0123456789ab' },
    verify: (async () => ({})) as unknown as VerifyControlToken,
  })
  /** `path`: below `/control/v1`. */
  const ask = async (method: string, path: string, body?: object): Promise<{ status: number; body: unknown }> => {
    const response = await app.request(`/control/v1${path}`, {
      method,
      headers: { authorization: 'Bearer x', ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
  }
  return { host, ask }
}
