import type { ConnectOptions, WebSocketConstructor } from '@boxoffice/client'
import WebSocket from 'ws'
import { lightFetch } from './light-fetch.ts'

const LightSocket: WebSocketConstructor = class extends WebSocket {
  constructor(url: string, protocols: string[]) {
    super(url, protocols, { perMessageDeflate: false })
  }
}

/**
 * What a short command talks over: Node's own `fetch` and `WebSocket` take 70 ms to load, these 20. They know nothing of proxies; who
 * has told Node to use one gets its own.
 */
export const lightNetwork = (env: NodeJS.ProcessEnv = process.env): Pick<ConnectOptions, 'fetch' | 'WebSocket'> =>
  env.NODE_USE_ENV_PROXY === '1' ? {} : { fetch: lightFetch, WebSocket: LightSocket }
