import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'

/** Status of a GET. Names below localhost are for browsers: others connect to the listener, and say the name. */
export const getPreview = async (path: string, headers: { host: string } & Record<string, string>): Promise<number> => {
  const sent = request({ host: '127.0.0.1', port: headers.host.split(':')[1], path, headers }).end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  response.resume()
  return response.statusCode ?? 0
}
