import { once } from 'node:events'
import { WebSocket } from 'ws'
import { type Reply, request } from './api.ts'
import { API_KEY, type Stack } from './stack.ts'

type Json = Record<string, unknown>

/** The Box surface over plain HTTP, as its clients call it. */
export const boxApi = (url: string, key: string = API_KEY) => {
  const send = (method: string, path: string, body?: unknown): Promise<Reply> =>
    request(url + path, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const of = (id: string): string => `/v1/sessions/${encodeURIComponent(id)}`
  return {
    send,
    create: (id: string, spec: Json = {}) => send('POST', of(id), spec),
    get: (id: string) => send('GET', of(id)),
    list: () => send('GET', '/v1/sessions'),
    remove: (id: string) => send('DELETE', of(id)),
    exec: (id: string, cmd: string, spec: Json = {}) => send('POST', `${of(id)}/exec`, { cmd, ...spec }),
    status: () => send('GET', '/v1/status'),
    start: (id: string, spec: Json, pid?: string) => send('POST', `${of(id)}/managed-process${pid === undefined ? '' : `/${pid}`}`, spec),
    process: (id: string, pid?: string) => send('GET', `${of(id)}/managed-process${pid === undefined ? '' : `/${pid}`}`),
    stop: (id: string, pid?: string) => send('DELETE', `${of(id)}/managed-process${pid === undefined ? '' : `/${pid}`}`),
    /** What it printed; throws unless the command has ended by itself with 0. */
    async output(id: string, cmd: string, spec: Json = {}): Promise<string> {
      const { status, body, text } = await send('POST', `${of(id)}/exec`, { cmd, ...spec })
      const result = body as { exit_code?: number; stdout: string }
      if (status !== 200 || result.exit_code !== 0) throw new Error(`${cmd}: ${status} ${text}`)
      return result.stdout
    },
  }
}

export type BoxApi = ReturnType<typeof boxApi>
export const boxOf = (stack: Stack, key?: string): BoxApi => boxApi(`${stack.brokerUrl}/compat/box`, key)

/** A socket of the surface whose text messages a test takes one after the other. */
export const openSocket = async (url: string, options: { key?: string; protocols?: string[] } = {}) => {
  const { key = API_KEY, protocols = [] } = options
  const socket = new WebSocket(url.replace(/^http/, 'ws'), protocols, { headers: { authorization: `Bearer ${key}` } })
  const messages: string[] = []
  const waiting: ((message: string) => void)[] = []
  socket.on('message', (data) => {
    const next = waiting.shift()
    if (next === undefined) messages.push(String(data))
    else next(String(data))
  })
  const closed = once(socket, 'close').then(([code]) => code as number)
  const refused = new Promise<number>((resolve) => socket.once('unexpected-response', (_, response) => resolve(response.statusCode ?? 0)))
  const opened = once(socket, 'open').then(() => null)
  opened.catch(() => {})
  socket.on('error', () => {})
  const status = await Promise.race([opened, refused])
  return {
    /** The refusal's status; null where it is open. */
    status,
    protocol: socket.protocol,
    closed,
    send: (text: string) => socket.send(text),
    next: (): Promise<string> => {
      const message = messages.shift()
      return message === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(message)
    },
    close: () => socket.close(),
  }
}

/** Action RPC over a socket. */
export const openRpc = async (url: string, key?: string) => {
  const socket = await openSocket(url, key === undefined ? {} : { key })
  let last = 0
  return {
    ...socket,
    async call(action: string, data: Json = {}) {
      socket.send(JSON.stringify({ seq_id: ++last, action, data }))
      return JSON.parse(await socket.next()) as { seq_id: number; code: number; message: string; data: Json }
    },
  }
}
