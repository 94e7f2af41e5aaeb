import type { Server, Socket } from 'node:net'
import { plainAddress } from '@boxoffice/kit/plain-address'
import { type Holder, Holders } from './holders.ts'

export type ConnectionLimits = {
  /** Connections of one listener. */
  total: number
  /** Of one client address, those on which nobody has authenticated. */
  strangersPerAddress: number
  /** Addresses behind which are many clients, brokers among them: the total alone is for them. */
  trustedProxies: readonly string[]
}

const DEFAULT_LIMITS: ConnectionLimits = { total: 8192, strangersPerAddress: 1024, trustedProxies: [] }

type Introduce = (holder: Holder | undefined) => void

/** What makes a connection that of somebody known, by the socket that its requests carry. */
const introductions = new WeakMap<object, Introduce>()

/**
 * Somebody has authenticated on this connection: it is no stranger's from now on, and counts as the `holder`'s. Without one it counts
 * as nobody's: brokers and agents among themselves.
 */
export function markAuthenticated(socket: object, holder?: Holder): void {
  introductions.get(socket)?.(holder)
}

/**
 * Bounds the connections of a listener [contract 2.1]. Above the bound of an address its oldest stranger's goes. Above the total one of
 * those goes who hold most: the oldest of all strangers', or the newest of a principal that holds more than there are strangers.
 */
export function limitConnections(server: Server, limits: Partial<ConnectionLimits> = {}): void {
  const { total, strangersPerAddress, trustedProxies } = { ...DEFAULT_LIMITS, ...limits }
  const trusted = new Set(trustedProxies)
  /** With what is to be done when one goes. */
  const open = new Map<Socket, () => void>()
  const strangers = new Set<Socket>()
  const byAddress = new Map<string, Set<Socket>>()
  const holders = new Holders<Socket>()
  /** With TLS, requests carry a socket that stands on the accepted one; both have the same peer. */
  const byPeer = new Map<string, Socket>()

  const makeRoom = (): void => {
    const largest = holders.largest()
    end(largest.size > strangers.size ? [...largest].at(-1) : first(strangers))
  }
  /** Its place is free at once: many may come before its end is told. */
  const end = (socket: Socket | undefined): void => {
    if (socket === undefined) return
    open.get(socket)?.()
    socket.destroy()
  }

  server.on('connection', (socket: Socket) => {
    const { remoteAddress } = socket
    const address = remoteAddress === undefined ? undefined : plainAddress(remoteAddress)
    const peer = peerOf(socket)
    let holder: Holder | undefined
    const noStranger = (): void => {
      if (!strangers.delete(socket)) return
      byPeer.delete(peer)
      if (address === undefined) return
      const mine = byAddress.get(address)
      mine?.delete(socket)
      if (mine?.size === 0) byAddress.delete(address)
    }
    const holdFor = (next: Holder | undefined): void => {
      // With each request; connections change hands where a proxy is between.
      if (next?.tenant === holder?.tenant && next?.principal === holder?.principal) return
      if (holder !== undefined) holders.remove(holder, socket)
      holder = next
      if (next !== undefined) holders.add(next, socket)
    }
    const gone = (): void => {
      open.delete(socket)
      noStranger()
      holdFor(undefined)
    }
    open.set(socket, gone)
    strangers.add(socket)
    byPeer.set(peer, socket)
    introductions.set(socket, (next) => {
      // It may have gone while its credential was looked at.
      if (!open.has(socket)) return
      noStranger()
      holdFor(next)
    })
    socket.once('close', gone)
    if (address !== undefined && !trusted.has(address)) {
      const mine = byAddress.get(address) ?? new Set()
      byAddress.set(address, mine.add(socket))
      if (mine.size > strangersPerAddress) end(first(mine))
    }
    if (open.size > total) makeRoom()
  })
  server.on('secureConnection', (socket: Socket) => {
    const accepted = byPeer.get(peerOf(socket))
    const introduce = accepted === undefined ? undefined : introductions.get(accepted)
    if (introduce !== undefined) introductions.set(socket, introduce)
  })
}

const first = <T>(set: ReadonlySet<T>): T | undefined => set.values().next().value

const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`
