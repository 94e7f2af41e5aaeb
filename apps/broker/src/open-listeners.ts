import { isLoopback } from '@boxoffice/kit/is-loopback'
import type { ResolvedBrokerConfig } from './config/config.ts'
import type { Log } from './host/log.ts'
import { bind, type Listener } from './http/server.ts'

export type Listeners = {
  /** The configured one. */
  listener: Listener
  /** For the broker's own calls of itself, which know no certificate; the configured one where that is plain HTTP. */
  own: Listener
  /** Each of them once. */
  all: Listener[]
  /** Where clients and agents reach the broker. */
  url: string
}

/** Binds the broker's ports; what comes waits until there is something to answer it. `parts` closes them. Throws `StartError`. */
export async function openListeners(settings: ResolvedBrokerConfig, log: Log, parts: AsyncDisposableStack): Promise<Listeners> {
  const listener = await bind(settings)
  parts.defer(() => listener.close())
  const url = settings.publicUrl ?? listener.localUrl
  const own = settings.tls === undefined ? listener : await bind({ ...settings, host: '127.0.0.1', port: 0, tls: undefined })
  if (own !== listener) parts.defer(() => own.close())
  if (url.startsWith('http:') && !isLoopback(new URL(url).hostname))
    log.warn({ public_url: url }, 'the public URL is not https: credentials cross the network in the clear unless a TLS proxy is in front')
  return { listener, own, all: [...new Set([own, listener])], url }
}
