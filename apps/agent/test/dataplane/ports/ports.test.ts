import type { Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { freePort, pattern, tcp } from '../../support/listening.ts'
import { PortClient } from '../../support/port-client.ts'

const MIB = 1024 * 1024
const PIECE = 256 * 1024

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

const listed = async (token?: string): Promise<Response> => dp.fetch('/ports', token === undefined ? {} : { token })

test('GET ports tells where somebody listens', async () => {
  await using app = await tcp(() => {})
  const port = await freePort()
  const { ports } = (await (await listed()).json()) as { ports: { port: number }[] }
  expect(ports).toContainEqual({ port: app.port })
  expect(ports).not.toContainEqual({ port })
  expect(ports).toEqual(ports.toSorted((a, b) => a.port - b.port))
})

test('bytes pass both ways, and each way ends by itself', async () => {
  await using app = await tcp((socket) => {
    socket.write('hello ')
    void text(socket).then((all) => socket.end(`and ${all}`))
  })
  const client = await PortClient.open(dp, app.port)
  expect(client.frames[0]).toEqual({ type: 'ready', port: app.port, host: '127.0.0.1' })
  client.write('to')
  client.write('gether')
  await client.until(() => String(client.bytes) === 'hello ')
  client.end()
  expect(await client.closed).toMatchObject({ code: 1000 })
  expect(String(client.bytes)).toBe('hello and together')
  expect(client.types).toEqual(['ready', 'end'])
})

test('a program that has said everything still hears', async () => {
  const heard = Promise.withResolvers<string>()
  await using app = await tcp((socket) => {
    socket.end('said')
    void text(socket).then(heard.resolve)
  })
  const client = await PortClient.open(dp, app.port)
  await client.until(() => client.find('end') !== undefined)
  client.write('late')
  client.end()
  expect(await heard.promise).toBe('late')
  expect(await client.closed).toMatchObject({ code: 1000 })
})

test.each([
  ['', 'as the network lets it'],
  [`?window=${MIB}`, 'with a window'],
])('100 MiB pass both ways at once, byte for byte (%s %s)', async (query) => {
  await using echo = await tcp((socket) => socket.pipe(socket))
  const client = await PortClient.open(dp, echo.port, { query })
  const sent = pattern(100 * MIB)
  let acknowledged = 0
  for (let at = 0; at < sent.length; at += PIECE) {
    client.write(sent.subarray(at, at + PIECE))
    await client.until(() => at - client.byteCount < 8 * MIB)
    if (query === '' || client.byteCount - acknowledged < MIB / 4) continue
    acknowledged = client.byteCount
    client.frame({ type: 'ack', received: acknowledged })
  }
  client.end()
  while (query !== '' && client.byteCount < sent.length) {
    await client.until(() => client.byteCount > acknowledged)
    acknowledged = client.byteCount
    client.frame({ type: 'ack', received: acknowledged })
  }
  expect(await client.closed).toMatchObject({ code: 1000 })
  expect(client.bytes.equals(sent)).toBe(true)
  if (query !== '') expect(client.frames.findLast(({ type }) => type === 'ack')).toMatchObject({ received: expect.any(Number) })
})

test('with a window the program is never further ahead of the client than that', async () => {
  const window = 128 * 1024
  await using app = await tcp((socket) => socket.end(pattern(4 * MIB)))
  const client = await PortClient.open(dp, app.port, { query: `?window=${window}` })
  // A read of the connection may go beyond it.
  const most = window + 64 * 1024
  await client.until(() => client.byteCount >= window)
  for (let acknowledged = 0; acknowledged < 4 * MIB; ) {
    // The answer comes behind what was sent before it.
    const pongs = client.types.filter((type) => type === 'pong').length
    client.frame({ type: 'ping' })
    await client.until(() => client.types.filter((type) => type === 'pong').length > pongs)
    expect(client.byteCount - acknowledged).toBeLessThanOrEqual(most)
    await client.until(() => client.byteCount > acknowledged)
    acknowledged = client.byteCount
    client.frame({ type: 'ack', received: acknowledged })
  }
  await client.until(() => client.find('end') !== undefined)
  expect(client.bytes.equals(pattern(4 * MIB))).toBe(true)
  client.end()
  await client.closed
})

test('a client that does not read holds up the program', async () => {
  const program = Promise.withResolvers<Socket>()
  await using flood = await tcp((socket) => {
    const more = (): void => {
      while (socket.write(pattern(MIB)));
      socket.once('drain', more)
    }
    more()
    program.resolve(socket)
  })
  const client = await PortClient.open(dp, flood.port)
  client.ws.pause()
  const socket = await program.promise
  const written = async (): Promise<number> => {
    await dp.exec({ command: 'true' })
    return socket.bytesWritten - socket.writableLength
  }
  let before = -1
  for (let now = await written(); now !== before; now = await written()) before = now
  // The kernel's buffers of each connection on the way, and what agent and relay hold.
  expect(before).toBeLessThan(48 * MIB)
  client.ws.terminate()
})

test('a program that breaks off is an error and 4502', async () => {
  await using app = await tcp((socket) => socket.once('data', () => socket.resetAndDestroy()))
  const client = await PortClient.open(dp, app.port)
  client.write('go')
  expect(await client.closed).toEqual({ code: 4502, reason: 'CONNECTION_RESET' })
  expect(client.find('error')?.error).toMatchObject({ code: 'CONNECTION_RESET', retryable: false })
})

test('a client that breaks off is told to the program', async () => {
  const ended = Promise.withResolvers<string>()
  await using app = await tcp((socket) => {
    socket.on('error', (error: NodeJS.ErrnoException) => ended.resolve(error.code ?? ''))
    socket.on('end', () => ended.resolve('end')).resume()
  })
  const client = await PortClient.open(dp, app.port)
  client.ws.terminate()
  expect(await ended.promise).toBe('ECONNRESET')
})

test('a program that never answers costs nobody else anything', async () => {
  await using silent = await tcp(() => {})
  await using echo = await tcp((socket) => socket.pipe(socket))
  const waiting = await Promise.all(Array.from({ length: 20 }, () => PortClient.open(dp, silent.port)))
  for (const client of waiting) client.write('anybody?')
  const client = await PortClient.open(dp, echo.port)
  client.write('there')
  client.end()
  await client.closed
  expect(String(client.bytes)).toBe('there')
  for (const client of waiting) client.ws.terminate()
})

describe('an upgrade is refused', () => {
  test('where nobody listens, with the ports that do', async () => {
    await using app = await tcp(() => {})
    const port = await freePort()
    const { status, error } = await PortClient.refused(dp, port)
    expect(status).toBe(502)
    expect(error).toMatchObject({
      code: 'PORT_NOT_LISTENING',
      retryable: false,
      details: { port, listening: expect.arrayContaining([app.port]) },
    })
  })

  test('to a browser as an error and a close', async () => {
    const port = await freePort()
    const client = await new PortClient(dp, port, { token: null, protocols: ['boxoffice.v1', `bearer.${dp.token}`] }).opened()
    expect(await client.closed).toEqual({ code: 4502, reason: 'PORT_NOT_LISTENING' })
    expect(client.find('error')?.error).toMatchObject({ code: 'PORT_NOT_LISTENING' })
  })

  test.each(['0', '8', '08080', '8080.0', '+8080', '0x1f90', '8e3', '65536', '%38080', '8080;', '-1', 'http'])(
    'for the port %s',
    async (port) => {
      const { status, error } = await PortClient.refused(dp, port)
      expect([status, (error as { code: string }).code]).toEqual([400, 'INVALID_REQUEST'])
    },
  )

  test('without a token, also one in the query', async () => {
    await using app = await tcp(() => {})
    expect(await PortClient.refused(dp, app.port, { token: null })).toMatchObject({ status: 401, error: { code: 'UNAUTHENTICATED' } })
  })

  test('for a window out of bounds', async () => {
    await using app = await tcp(() => {})
    expect(await PortClient.refused(dp, app.port, { query: '?window=1' })).toMatchObject({
      status: 400,
      error: { code: 'INVALID_REQUEST' },
    })
  })
})

describe('without the capability', { tags: ['C-39'] }, () => {
  test('both routes are 403', async () => {
    await using app = await tcp(() => {})
    const token = await dp.sign({ caps: ['exec', 'shell', 'fs_read', 'fs_write'] })
    const refusal = { error: { code: 'CAPABILITY_DENIED', details: { capability: 'ports' } } }
    const response = await listed(token)
    expect([response.status, await response.json()]).toMatchObject([403, refusal])
    expect(await PortClient.refused(dp, app.port, { token })).toMatchObject({ status: 403, ...refusal })
  })

  test('without isolation the loopback is the host’s: exec is needed as well', async () => {
    await using app = await tcp(() => {})
    const token = await dp.sign({ caps: ['ports'] })
    expect((await listed(token)).status).toBe(403)
    expect(await PortClient.refused(dp, app.port, { token })).toMatchObject({ status: 403, error: { details: { capability: 'exec' } } })
  })
})

test('a session that ends closes its connections', async () => {
  const own = await TestDataplane.start()
  try {
    const programSaw = Promise.withResolvers<void>()
    await using app = await tcp((socket) => socket.on('error', () => programSaw.resolve()))
    const client = await PortClient.open(own, app.port)
    own.sandbox.end({ lost: false, reason: 'released' })
    expect(await client.closed).toEqual({ code: 4410, reason: 'SESSION_RELEASED' })
    await programSaw.promise
  } finally {
    await own[Symbol.asyncDispose]()
  }
})

test('an agent that starts again breaks connections off, with a word that says so', async () => {
  const own = await TestDataplane.start()
  try {
    await using app = await tcp(() => {})
    const client = await PortClient.open(own, app.port)
    await own.sandbox.relink()
    expect(await client.closed).toEqual({ code: 4503, reason: 'BACKEND_UNAVAILABLE' })
    const again = await PortClient.open(own, app.port)
    again.ws.terminate()
  } finally {
    await own[Symbol.asyncDispose]()
  }
})

test('frames that are none end the socket', async () => {
  await using app = await tcp(() => {})
  for (const frame of [{ type: 'stdin' }, { type: 'ack', received: -1 }, { type: 'ack', received: 5 }]) {
    const client = await PortClient.open(dp, app.port)
    client.frame(frame)
    expect(await client.closed).toEqual({ code: 4400, reason: 'INVALID_REQUEST' })
  }
  const client = await PortClient.open(dp, app.port)
  client.end()
  client.write('late')
  expect(await client.closed).toEqual({ code: 4400, reason: 'INVALID_REQUEST' })
})
