import type { Server, Socket } from 'node:net'

export type ConnectionLimits = {
  /** Connections of one listener. */
  total: number
  /** Of one client address, those on which nobody has authenticated. */
  strangersPerAddress: number
  /** Addresses behind which are many clients, brokers among them: the total alone is for them. */
  trustedProxies: readonly string[]
}

const DEFAULT_LIMITS: ConnectionLimits = { total: 8192, strangersPerAddress: 1024, trustedProxies: [] }

/** What makes a connection that of somebody known, by the socket that its requests carry. */
const introductions = new WeakMap<object, () => void>()

/** Somebody has authenticated on this connection: it is no stranger's from now on. */
export function markAuthenticated(socket: object): void {
  const introduce = introductions.get(socket)
  if (introduce === undefined) return
  introductions.delete(socket)
  introduce()
}

/**
 * Bounds the connections of a listener [contract 2.1]. Above a bound the oldest goes on which nobody has authenticated; where there is
 * none, the new one.
 */
export function limitConnections(server: Server, limits: Partial<ConnectionLimits> = {}): void {
  const { total, strangersPerAddress, trustedProxies } = { ...DEFAULT_LIMITS, ...limits }
  const trusted = new Set(trustedProxies)
  const open = new Set<Socket>()
  const strangers = new Set<Socket>()
  const byAddress = new Map<string, Set<Socket>>()
  /** With TLS, requests carry a socket that stands on the accepted one; both have the same peer. */
  const byPeer = new Map<string, Socket>()

  server.on('connection', (socket: Socket) => {
    const address = plainAddress(socket.remoteAddress)
    const peer = peerOf(socket)
    const known = (): void => {
      strangers.delete(socket)
      byPeer.delete(peer)
      if (address === undefined) return
      const mine = byAddress.get(address)
      mine?.delete(socket)
      if (mine?.size === 0) byAddress.delete(address)
    }
    open.add(socket)
    strangers.add(socket)
    byPeer.set(peer, socket)
    introductions.set(socket, known)
    socket.once('close', () => {
      open.delete(socket)
      known()
    })
    if (address !== undefined && !trusted.has(address)) {
      const mine = byAddress.get(address) ?? new Set()
      byAddress.set(address, mine.add(socket))
      if (mine.size > strangersPerAddress) first(mine)?.destroy()
    }
    if (open.size > total) first(strangers)?.destroy()
  })
  server.on('secureConnection', (socket: Socket) => {
    const accepted = byPeer.get(peerOf(socket))
    const introduce = accepted === undefined ? undefined : introductions.get(accepted)
    if (introduce !== undefined) introductions.set(socket, introduce)
  })
}

const first = <T>(set: ReadonlySet<T>): T | undefined => set.values().next().value

const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`

/** `::ffff:10.0.0.1` is 10.0.0.1 on a dual-stack listener. */
const plainAddress = (address: string | undefined): string | undefined => address?.replace(/^::ffff:/, '')
