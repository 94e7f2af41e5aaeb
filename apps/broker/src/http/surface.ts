import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Hono } from 'hono'
import type { ZodOpenApiOperationObject } from 'zod-openapi'
import type { Env } from './env.ts'
import type { AnyRoute } from './route.ts'
import type { Bytes } from './server.ts'

/** Ports of listeners that a surface has beside the broker's. */
export type SurfacePorts = { boxPort?: number; boxRpcPort?: number }

export type Mount = {
  path: string
  app: Hono<Env>
  /** Its operations by path and method, for the document of the broker; undefined: it is another system's API, described elsewhere. */
  described?: Record<string, Record<string, ZodOpenApiOperationObject>>
}

/** One API of the broker: what it serves on the broker's listener, and what it runs beside it. */
export interface Surface {
  readonly name: 'v1' | 'mcp' | 'mcp-tools' | 'steps' | 'box' | 'documentation' | 'e2b' | 'langsmith' | 'n8n'
  /** In the manner of the broker's own API, and documented with it; their refusals are its envelope. */
  routes?: readonly AnyRoute[]
  /** Apps below a path, made with `surfaceApp`, which tells of refusals in the words of the surface. */
  mounts?: readonly Mount[]
  /** Takes requests of `node:http` as they are, past the app: what streams in both directions. */
  bytes?: Pick<Bytes, 'owns' | 'handle'>
  /** Opens a socket; false where the request is for another surface. */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): boolean
  /** Opens listeners of its own, and gives their ports. */
  listen?(): Promise<SurfacePorts>
  /** Called once the broker serves. */
  start?(): void
  /** Ends its sockets and listeners, and what it runs. */
  close?(): Promise<void>
}

/** Requests for preview hosts go to `previews`, whatever their path: those hosts have nothing of the broker's own. */
export const withPreviews = (previews: Bytes, others: Bytes): Bytes => {
  const of = (request: IncomingMessage): Bytes => (previews.owns(request) ? previews : others)
  return {
    owns: (request) => of(request).owns(request),
    handle: (request, response) => of(request).handle(request, response),
    upgrade: (request, socket, head) => of(request).upgrade(request, socket, head),
  }
}

/** Sockets and plain requests of the surfaces; everything else goes to `others`. */
export const withUpgrades = (surfaces: readonly Surface[], others: Bytes): Bytes => {
  const bytes = surfaces.flatMap((surface) => surface.bytes ?? [])
  const ownerOf = (request: IncomingMessage) => bytes.find((one) => one.owns(request))
  return {
    owns: (request) => others.owns(request) || ownerOf(request) !== undefined,
    handle: (request, response) => (ownerOf(request) ?? others).handle(request, response),
    upgrade: (request, socket, head) => {
      if (!surfaces.some((surface) => surface.upgrade?.(request, socket, head))) others.upgrade(request, socket, head)
    },
  }
}
