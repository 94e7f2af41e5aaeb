import { Client, type ConnectOptions } from './client.ts'

/**
 * The way in: `connect('http://127.0.0.1:7070', { apiKey })`. Nothing is sent before the first call.
 *
 *   const session = await connect(url, { apiKey }).session('thread-1')
 *   const { stdout } = await session.exec('echo hello')
 */
export const connect = (brokerUrl: string, options: ConnectOptions): Client =>
  // Plain JavaScript may leave them out, and then hears what is missing.
  new Client(brokerUrl, options ?? {})
