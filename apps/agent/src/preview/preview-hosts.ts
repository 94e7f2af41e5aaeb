import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { forwardedAddress } from '@boxoffice/kit/forwarded-address'
import { markAuthenticated, refusePreview, refusePreviewSocket, requireForwardable, requireForwardableUpgrade } from '@boxoffice/node-http'
import { BoxofficeError, fromUnknown, parsePreviewHost, requestIdFrom } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { AccessJournal } from '../http/access-journal.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { dialPort } from '../supervisor/tunnel.ts'
import { type ExchangeCode, isReserved, serveEnter } from './enter.ts'
import type { Target } from './headers.ts'
import { type Admission, createPreviewAccess, type PreviewAccessOptions } from './preview-access.ts'
import { createPreviewProxy, type PreviewProxy, type PreviewProxyOptions } from './preview-proxy.ts'

export type PreviewHostsOptions = PreviewAccessOptions &
  Pick<PreviewProxyOptions, 'answerWithinMs'> & {
    revocations: { onChange(listener: () => void): () => void }
    keys: { onWithdrawal(listener: () => void): () => void }
    exchange: ExchangeCode
    /** Addresses behind which are many clients, brokers among them: their `X-Forwarded-For` counts. */
    trustedProxies: readonly string[]
    access: Pick<AccessJournal, 'opened' | 'refused'>
    log: Logger
  }

/** Previews of ports, by the name under which a request comes. */
export interface PreviewHosts {
  /** Serves a request for a preview host; false, and nothing is done, for every other host. */
  handle(incoming: IncomingMessage, outgoing: ServerResponse): boolean
  upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): boolean
  /** Cuts what is open. */
  close(): void
}

/** How often what is open is looked at for exposures that have run out. */
const SWEEP_MS = 10_000

type Running = { admission: Admission; cut: () => void }

export const createPreviewHosts = (options: PreviewHostsOptions): PreviewHosts => {
  const { exposed, exchange, access: journal, log, answerWithinMs } = options
  const limits = answerWithinMs === undefined ? {} : { answerWithinMs }
  const access = createPreviewAccess(options)
  const proxies = new WeakMap<Sandbox, Map<number, PreviewProxy>>()
  const running = new Set<Running>()
  const trusted = new Set(options.trustedProxies)

  const recheck = (): void => {
    for (const { admission, cut } of [...running]) {
      try {
        access.recheck(admission)
      } catch {
        cut()
      }
    }
  }
  exposed.onChange(recheck)
  const offRevocations = options.revocations.onChange(recheck)
  const offWithdrawals = options.keys.onWithdrawal(recheck)
  const sweep = setInterval(() => {
    for (const { admission } of running) exposed.find(admission.hostname).catch(() => {})
    recheck()
  }, SWEEP_MS).unref()

  const proxyOf = (sandbox: Sandbox, port: number): PreviewProxy => {
    const ofSandbox = proxies.get(sandbox) ?? new Map<number, PreviewProxy>()
    proxies.set(sandbox, ofSandbox)
    const proxy = ofSandbox.get(port) ?? createPreviewProxy({ ...limits, dial: (wanted) => dialPort(sandbox.link, wanted), port })
    ofSandbox.set(port, proxy)
    return proxy
  }

  const admit = async (incoming: IncomingMessage, requestId: string, transport: 'http' | 'ws', hostname: string): Promise<Admission> => {
    const told = { requestId, transport, ip: incoming.socket.remoteAddress, requires: 'ports', token: undefined } as const
    try {
      const admission = await access.admit(incoming, hostname, transport === 'ws')
      const { claims, route } = admission
      markAuthenticated(incoming.socket, { tenant: route.tenant_id, principal: claims?.sub ?? `preview ${route.label}` })
      if (claims !== undefined) journal.opened({ ...told, sandboxId: route.sandbox_id, claims })
      return admission
    } catch (thrown) {
      journal.refused({ ...told, sandboxId: exposed.known(hostname)?.sandbox_id ?? '', claims: undefined }, fromUnknown(thrown))
      throw thrown
    }
  }

  /** Uses the sandbox for as long as `work` takes; `cut` is called when it may not go on. */
  const using = async (admission: Admission, cut: () => void, work: () => Promise<void>): Promise<void> => {
    // Before it counts as a use, of which the broker would wake the sandbox.
    requireWakeable(admission.sandbox)
    const detach = admission.sandbox.activity.attach()
    const entry = { admission, cut }
    running.add(entry)
    try {
      // Something may have changed while it was admitted.
      access.recheck(admission)
      await work()
    } finally {
      running.delete(entry)
      detach()
    }
  }

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse, hostname: string, requestId: string): Promise<void> => {
    requireForwardable(incoming)
    if (isReserved(incoming.url ?? '/')) return serveEnter(incoming, outgoing, { hostname, route: await access.route(hostname), exchange })
    const admission = await admit(incoming, requestId, 'http', hostname)
    const { sandbox, route } = admission
    await using(
      admission,
      () => outgoing.destroy(),
      async () => {
        await untilClosed(outgoing, (signal) => sandbox.ready(signal))
        await proxyOf(sandbox, route.port).request(incoming, outgoing, targetOf(admission, incoming))
      },
    )
  }

  const open = async (incoming: IncomingMessage, socket: Duplex, head: Buffer, hostname: string, requestId: string): Promise<void> => {
    requireForwardableUpgrade(incoming)
    if (isReserved(incoming.url ?? '/')) throw new BoxofficeError('NOT_FOUND', 'There is no such page')
    const admission = await admit(incoming, requestId, 'ws', hostname)
    await using(
      admission,
      () => socket.destroy(),
      async () => {
        await untilClosed(socket, (signal) => admission.sandbox.ready(signal))
        await proxyOf(admission.sandbox, admission.route.port).upgrade({ incoming, socket, head, target: targetOf(admission, incoming) })
      },
    )
  }

  const targetOf = ({ route: { port, url: origin, host } }: Admission, { socket, headers }: IncomingMessage): Target => {
    const forwardedFor = [headers['x-forwarded-for']].flat().join(',')
    return { port, origin, host, clientAddress: forwardedAddress(socket.remoteAddress, forwardedFor, trusted) }
  }

  const told = (thrown: unknown, requestId: string): BoxofficeError => {
    const error = fromUnknown(thrown)
    if (error.code === 'INTERNAL') log.error({ err: error.cause ?? error, request_id: requestId }, 'a preview failed')
    return error
  }

  return {
    handle(incoming, outgoing) {
      const host = parsePreviewHost(incoming.headers.host)
      if (host === undefined) return false
      const requestId = requestIdFrom(incoming.headers['x-request-id'])
      serve(incoming, outgoing, host.hostname, requestId).catch((thrown: unknown) =>
        refusePreview(incoming, outgoing, told(thrown, requestId), requestId),
      )
      return true
    },
    upgrade(incoming, socket, head) {
      const host = parsePreviewHost(incoming.headers.host)
      if (host === undefined) return false
      const requestId = requestIdFrom(incoming.headers['x-request-id'])
      socket.on('error', () => {})
      open(incoming, socket, head, host.hostname, requestId).catch((thrown: unknown) =>
        refusePreviewSocket(socket, told(thrown, requestId), requestId),
      )
      return true
    },
    close() {
      clearInterval(sweep)
      offRevocations()
      offWithdrawals()
      for (const { cut } of [...running]) cut()
    },
  }
}

/** Throws BINDING_CONFLICT where the profile lets no preview wake a suspended sandbox. */
const requireWakeable = ({ isSuspended, profile }: Sandbox): void => {
  if (isSuspended && !profile.previews_wake)
    throw new BoxofficeError('BINDING_CONFLICT', 'The sandbox is suspended, and no preview wakes it; a command in it does')
}

/** Waits for something that ends when the client leaves. An abort later would be told to nobody, and costs as much as the rest of a request. */
const untilClosed = async (client: ServerResponse | Duplex, wait: (signal: AbortSignal) => Promise<void>): Promise<void> => {
  const aborter = new AbortController()
  const aborted = (): void => aborter.abort()
  client.once('close', aborted)
  try {
    await wait(aborter.signal)
  } finally {
    client.off('close', aborted)
  }
}
