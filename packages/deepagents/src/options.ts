import type { SessionOptions } from '@boxoffice/client'

/** An API key, or the bearer token of an identity provider; a function is asked for each request. */
export type Auth = { apiKey: string } | { token: string | (() => string | Promise<string>) }

type Common = {
  /** The broker's. Default: the variable `BOXOFFICE_URL`, else `http://127.0.0.1:7070`. */
  url?: string | undefined
  /** Default: `{ apiKey }` from the variable `BOXOFFICE_API_KEY`. */
  auth?: Auth | undefined
  /** Seconds after which a command is ended with exit code 124. Default 300; the profile may allow less. */
  timeout?: number | undefined
  /** Files that a sandbox begins with, by path: text or bytes. */
  initialFiles?: Readonly<Record<string, string | Uint8Array>> | undefined
  /** Milliseconds for which a broker or agent that is away is tried again. Default 120,000. */
  retryWindowMs?: number | undefined
  /** Directories that mean themselves, beside `/workspace`, `/app` and `/tmp`. Other absolute paths are below `/workspace`. */
  roots?: readonly string[] | undefined
  /** Larger files are not read into memory. Default 256 MiB. */
  maxDownloadBytes?: number | undefined
  /** Of the session, as the SDK takes them. */
  session?: Pick<SessionOptions, 'actor' | 'capabilities' | 'profile' | 'provider' | 'members' | 'labels' | 'relay'> | undefined
}

/** One sandbox. */
export type BoxofficeSandboxOptions = Common & {
  /** Whose sandbox it is: all who name the same thread share it. Default: a new one. */
  threadId?: string | undefined
}

/** One instance for the sandboxes of all threads. */
export type ThreadsOptions = Common & {
  /** Hosts (`host` or `host:port`), beside the broker's, that `configurable.sandbox` may point to; without them it is not used. */
  allowHosts?: readonly string[] | undefined
}

const COMMON = ['url', 'auth', 'timeout', 'initialFiles', 'retryWindowMs', 'roots', 'maxDownloadBytes', 'session']
const OWN = { create: 'threadId', forThreads: 'allowHosts' }

/** Options that are not there, by name: plain JavaScript may give any. */
export const unknownOptions = (kind: keyof typeof OWN, options: object): string[] =>
  Object.keys(options).filter((name) => !COMMON.includes(name) && name !== OWN[kind])

export type Settings = Required<Pick<Common, 'timeout' | 'initialFiles' | 'retryWindowMs' | 'roots' | 'maxDownloadBytes' | 'session'>> & {
  url: string
  auth: Auth
}

/** The options with their defaults. A missing key is refused by the SDK, with its name. */
export const toSettings = (options: Common): Settings => ({
  url: options.url ?? process.env.BOXOFFICE_URL ?? 'http://127.0.0.1:7070',
  auth: options.auth ?? { apiKey: process.env.BOXOFFICE_API_KEY ?? '' },
  timeout: options.timeout ?? 300,
  initialFiles: options.initialFiles ?? {},
  retryWindowMs: options.retryWindowMs ?? 120_000,
  roots: options.roots ?? [],
  maxDownloadBytes: options.maxDownloadBytes ?? 256 * 1024 * 1024,
  session: options.session ?? {},
})
