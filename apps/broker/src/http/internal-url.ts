import { networkInterfaces } from 'node:os'
import type { Listener } from './server.ts'

export type InternalUrlSettings = { internalUrl?: string | undefined; host: string; tls?: object | undefined }

/**
 * Where other brokers reach this one: the setting, else where it listens. Undefined where that cannot be known: its certificate names
 * another host, or the machine has several addresses.
 */
export function internalUrlOf(
  { internalUrl, host, tls }: InternalUrlSettings,
  listener: Pick<Listener, 'port' | 'localUrl'>,
): string | undefined {
  if (internalUrl !== undefined) return internalUrl
  if (tls !== undefined) return undefined
  if (host !== '0.0.0.0' && host !== '::' && host !== '[::]') return listener.localUrl
  const addresses = Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .filter(({ internal, family }) => !internal && family === 'IPv4')
  const [only] = addresses
  return only !== undefined && addresses.length === 1 ? `http://${only.address}:${listener.port}` : undefined
}
