import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Hono } from 'hono'
import type { Env } from './app.ts'
import type { AnyRoute } from './route.ts'
import type { Bytes } from './server.ts'

/** One API of the broker: what it serves on the broker's listener, and what it runs beside it. */
export interface Surface {
  /** In the manner of the broker's own API, and documented with it. */
  routes?: readonly AnyRoute[]
  /** With their own idea of errors, below their paths. */
  mounts?: readonly { path: string; app: Hono<Env> }[]
  /** Opens a socket; false where the request is for another surface. */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): boolean
  /** Opens listeners of its own, and gives their ports. */
  listen?(): Promise<{ boxPort?: number; boxRpcPort?: number }>
  /** Called once the broker serves. */
  start?(): void
  /** Ends its sockets and listeners, and what it runs. */
  close?(): Promise<void>
}

/** Sockets of the surfaces; everything else goes to `others`. */
export const withUpgrades = (surfaces: readonly Surface[], others: Bytes): Bytes => ({
  ...others,
  upgrade: (request, socket, head) => {
    if (!surfaces.some((surface) => surface.upgrade?.(request, socket, head))) others.upgrade(request, socket, head)
  },
})
