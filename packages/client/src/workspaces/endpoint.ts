import { realpath } from 'node:fs/promises'
import type { Client } from '../client.ts'
import { connect } from '../connect.ts'
import { type Endpoint, type LocalBoxoffice, type LocalBoxofficeOptions, startBoxoffice } from './local-boxoffice.ts'
import { workspaceError } from './workspace-error.ts'

/** Which Boxoffice runs the code. */
export type EndpointOptions = LocalBoxofficeOptions & {
  /** A broker's URL; default BOXOFFICE_URL, else a `boxoffice up` that is started on demand for this process. */
  endpoint?: string | undefined
  /** An operator's key for it: no other may choose a directory of the host. Default BOXOFFICE_API_KEY. */
  apiKey?: string | undefined
}

const locals = new Map<string, Promise<LocalBoxoffice>>()

/** A broker, and who may speak to it. */
export type Reached = { url: string; client: Client }

/** One that mounts below `root`, which exists. */
export const clientFor = async (root: string, options: EndpointOptions): Promise<Reached> => {
  const known = knownEndpoint(options)
  if (known !== undefined) return known
  const real = await realpath(root)
  const running = locals.get(real)
  if (running !== undefined) {
    const local = await running.catch(() => undefined)
    if (local !== undefined && !local.ended()) return reach(local)
    if (locals.get(real) === running) locals.delete(real)
    return await clientFor(root, options)
  }
  const starting = startBoxoffice(real, options)
  locals.set(real, starting)
  // The next one to ask may have more luck.
  starting.catch(() => locals.delete(real))
  return reach(await starting)
}

/** The same, unless that would start one. */
export const runningClientFor = async (root: string, options: EndpointOptions): Promise<Client | undefined> => {
  const known = knownEndpoint(options)
  if (known !== undefined) return known.client
  const real = await realpath(root).catch(() => root)
  const local = await locals.get(real)?.catch(() => undefined)
  return local === undefined || local.ended() ? undefined : reach(local).client
}

export const stopLocalBoxoffices = async (): Promise<void> => {
  const all = [...locals.values()]
  locals.clear()
  await Promise.all(all.map(async (starting) => (await starting.catch(() => undefined))?.stop()))
}

const reach = ({ url, apiKey }: Endpoint): Reached => ({ url, client: connect(url, { apiKey }) })

const knownEndpoint = ({ endpoint, apiKey }: EndpointOptions): Reached | undefined => {
  const url = endpoint ?? process.env.BOXOFFICE_URL
  if (url === undefined || url === '') return undefined
  const key = apiKey ?? process.env.BOXOFFICE_API_KEY
  if (key === undefined || key === '')
    throw workspaceError('UNAUTHENTICATED', `apiKey: ${url} wants one; give it, or set BOXOFFICE_API_KEY`)
  return reach({ url, apiKey: key })
}
