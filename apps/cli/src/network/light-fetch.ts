import type { IncomingMessage, RequestOptions } from 'node:http'

// An `import` of `node:http` reads every export of it, and two of them load all of Node's own `fetch`.
const { request: overHttp } = process.getBuiltinModule('node:http')

/**
 * `fetch` for requests and answers that are text, such as the broker's JSON. Node's own takes longer to load than all else that a short
 * command needs. As that with `redirect: 'error'`: rejects with what the connection said as `cause`, or with the signal's reason.
 */
export const lightFetch = (async (input: string, init: RequestInit = {}): Promise<Response> => {
  const { signal } = init
  signal?.throwIfAborted()
  try {
    const answer = await exchange(input, init)
    const { statusCode: status = 0, headers } = answer
    if (status >= 300 && status < 400) {
      answer.destroy()
      throw new Error('unexpected redirect')
    }
    const light: LightResponse = {
      ...{ ok: status >= 200 && status < 300, status, url: input, body: bodyOf(answer) },
      headers: { get: (name) => headers[name.toLowerCase()]?.toString() ?? null },
      text: () => textOf(answer),
    }
    return light as unknown as Response
  } catch (cause) {
    signal?.throwIfAborted()
    throw new TypeError('fetch failed', { cause })
  }
}) as typeof fetch

/** What the SDK reads of a response of JSON. */
type LightResponse = Pick<Response, 'ok' | 'status' | 'url' | 'text'> & { headers: Pick<Headers, 'get'>; body: LightBody }
type LightBody = Pick<ReadableStream, 'cancel'> & {
  getReader(): Pick<ReadableStreamDefaultReader<Uint8Array>, 'read' | 'cancel'>
}

/** As much of a web stream as its reader uses: Node's own are among what takes long to load. */
const bodyOf = (answer: IncomingMessage): LightBody => {
  const cancel = async (): Promise<void> => void answer.destroy()
  const getReader: LightBody['getReader'] = () => {
    const pieces = answer[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>
    const read = async (): Promise<ReadableStreamReadResult<Uint8Array>> => {
      const { done, value } = await pieces.next()
      return done === true ? { done, value: undefined } : { done: false, value }
    }
    return { read, cancel }
  }
  return { cancel, getReader }
}

const exchange = (url: string, { method = 'GET', headers, body, signal }: RequestInit): Promise<IncomingMessage> => {
  const options = { method, headers: headers as Record<string, string>, signal: signal ?? undefined } satisfies RequestOptions
  const send = url.startsWith('https:') ? process.getBuiltinModule('node:https').request : overHttp
  return new Promise((resolve, reject) => {
    const request = send(url, options, resolve)
    request.on('error', reject)
    request.end(body)
  })
}

const textOf = async (answer: IncomingMessage): Promise<string> => {
  const pieces: Buffer[] = []
  for await (const piece of answer) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString()
}
