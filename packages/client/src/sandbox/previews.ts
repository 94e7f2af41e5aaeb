import {
  type ExposedPort as ExposedPortWire,
  ListExposedPortsResponse,
  PortLinkResponse,
  type PreviewAccess,
  type PreviewHostMode,
  ExposedPort as Schema,
} from '@boxoffice/protocol'
import { type OptionNames, refuseUnknown } from '../base/known-options.ts'
import type { ControlPlane } from '../control/control-plane.ts'

/** A port that has a host of its own. */
export type ExposedPort = {
  port: number
  /** Its origin, without a path. */
  url: string
  access: PreviewAccess
  /** What the program reads as its `Host`. */
  host: PreviewHostMode
  embedOrigins: string[]
  /** Null: with the session. */
  expiresAt: Date | null
}

export type ExposeOptions = {
  /** Who may see it. Default: `private`. */
  access?: PreviewAccess | undefined
  /** For so long; default: until the session ends. */
  ttlSeconds?: number | undefined
  /** `preserve`: the program reads the name of the preview, not `localhost`. */
  host?: PreviewHostMode | undefined
  /** Pages that may show it in a frame. */
  embedOrigins?: readonly string[] | undefined
  signal?: AbortSignal | undefined
}

export type LinkOptions = {
  /** 60 to 600; default 60. */
  ttlSeconds?: number | undefined
  /** Where the browser goes then, on the preview's host. Default: `/`. */
  path?: string | undefined
  signal?: AbortSignal | undefined
}

const EXPOSE: OptionNames<ExposeOptions> = { access: true, ttlSeconds: true, host: true, embedOrigins: true, signal: true }
const LINK: OptionNames<LinkOptions> = { ttlSeconds: true, path: true, signal: true }

/** Hosts of a session's ports, by the broker's routes. */
export class Previews {
  readonly #controlPlane: ControlPlane
  readonly #path: string

  /** `path`: of the session's ports. */
  constructor(controlPlane: ControlPlane, path: string) {
    this.#controlPlane = controlPlane
    this.#path = path
  }

  async expose(port: number, options: ExposeOptions): Promise<ExposedPort> {
    refuseUnknown('ports.expose', options, EXPOSE)
    const { access, ttlSeconds: ttl_seconds, host, embedOrigins: embed_origins, signal } = options
    const json = { port, access, ttl_seconds, host, embed_origins }
    return read(await this.#controlPlane.json(this.#path, { method: 'POST', json, signal }, Schema))
  }

  async list(signal: AbortSignal | undefined): Promise<ExposedPort[]> {
    const { exposed } = await this.#controlPlane.json(this.#path, { method: 'GET', signal }, ListExposedPortsResponse)
    return exposed.map(read)
  }

  withdraw(port: number, signal: AbortSignal | undefined): Promise<void> {
    return this.#controlPlane.done(`${this.#path}/${port}`, { method: 'DELETE', signal })
  }

  async link(port: number, options: LinkOptions): Promise<{ url: string; expiresAt: Date }> {
    refuseUnknown('ports.link', options, LINK)
    const { ttlSeconds: ttl_seconds, path, signal } = options
    const request = { method: 'POST', json: { ttl_seconds, path }, signal } as const
    const { url, expires_at } = await this.#controlPlane.json(`${this.#path}/${port}/link`, request, PortLinkResponse)
    return { url, expiresAt: new Date(expires_at) }
  }
}

const read = ({ port, url, access, host, embed_origins, expires_at }: ExposedPortWire): ExposedPort => ({
  ...{ port, url, access, host, embedOrigins: embed_origins },
  expiresAt: expires_at === null ? null : new Date(expires_at),
})
