import { once } from 'node:events'
import { createServer, Agent as HttpAgent, type IncomingMessage, type RequestListener, request, type Server } from 'node:http'
import type { Socket } from 'node:net'
import { buffer, text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dialPort, listeningPorts, type Tunnel } from '../../src/supervisor/tunnel.ts'
import { run } from '../host/support/exec.ts'
import { freePort, type Listening, listening, pattern, tcp } from '../support/listening.ts'
import { SUPERVISOR, TestSandbox } from '../support/sandbox.ts'

const MIB = 1024 * 1024

let sandbox: TestSandbox
beforeAll(async () => {
  sandbox = await TestSandbox.start()
})
afterAll(() => sandbox[Symbol.asyncDispose]())

const http = (listener: RequestListener): Promise<Listening<Server>> => listening(createServer(listener))

const dial = (port: number): Promise<Tunnel> => dialPort(sandbox.link, port)

test('requests of HTTP pass, with keep-alive on one connection', async () => {
  let connections = 0
  await using app = await http((incoming, outgoing) => void text(incoming).then((body) => outgoing.end(`${incoming.url} ${body}`)))
  app.server.on('connection', () => connections++)
  await using front = await tcp((socket) => void dial(app.port).then((tunnel) => socket.pipe(tunnel).pipe(socket)))
  const agent = new HttpAgent({ keepAlive: true, maxSockets: 1 })
  for (let n = 0; n < 20; n++) {
    const asked = request({ agent, path: `/${n}`, method: 'POST', host: '127.0.0.1', port: front.port })
    asked.end(`body ${n}`)
    const [response] = (await once(asked, 'response')) as [IncomingMessage]
    expect(await text(response)).toBe(`/${n} body ${n}`)
  }
  expect(connections).toBe(1)
  agent.destroy()
})

test('each way ends by itself', async () => {
  await using echo = await tcp((socket) => void text(socket).then((all) => socket.end(`heard ${all}`)))
  const first = await dial(echo.port)
  first.end('all')
  expect(await text(first)).toBe('heard all')
  const heard = Promise.withResolvers<string>()
  await using talker = await tcp((socket) => {
    socket.end('said')
    void text(socket).then(heard.resolve)
  })
  const second = await dial(talker.port)
  expect(await text(second)).toBe('said')
  second.end('late')
  expect(await heard.promise).toBe('late')
})

test('an empty piece ends nothing', async () => {
  await using echo = await tcp((socket) => void text(socket).then((all) => socket.end(`heard ${all}`)))
  const tunnel = await dial(echo.port)
  // As Node's client ends a request whose body is known by its length.
  tunnel.write('')
  tunnel.write('more')
  tunnel.write('')
  tunnel.end(' follows')
  expect(await text(tunnel)).toBe('heard more follows')
})

test('100 MiB pass both ways at once, byte for byte', async () => {
  await using echo = await tcp((socket) => socket.pipe(socket))
  const tunnel = await dial(echo.port)
  const sent = pattern(100 * MIB)
  tunnel.end(sent)
  expect((await buffer(tunnel)).equals(sent)).toBe(true)
}, 120_000)

test('a reader that does not read holds up the program, and not the others', async () => {
  const flooding = Promise.withResolvers<Socket>()
  await using flood = await tcp((socket) => {
    socket.on('close', () => flooding.reject(new Error('closed')))
    const more = (): void => {
      while (socket.write(pattern(MIB)));
      socket.once('drain', more)
      flooding.resolve(socket)
    }
    more()
  })
  const tunnel = await dial(flood.port)
  const socket = await flooding.promise
  const written = async (): Promise<number> => {
    const { stdout } = await run(sandbox, 'echo beside')
    expect(stdout).toBe('beside\n')
    return socket.bytesWritten - socket.writableLength
  }
  let before = -1
  for (let now = await written(); now !== before; now = await written()) before = now
  // The kernel's buffers of both connections, and what the agent reads ahead.
  expect(before).toBeLessThan(32 * MIB)
  tunnel.destroy()
})

describe('a port where nobody listens', () => {
  test('is PORT_NOT_LISTENING, with the ports that do listen', async () => {
    await using app = await tcp(() => {})
    const port = await freePort()
    const refused = await dial(port).catch((error: unknown) => error)
    expect(refused).toMatchObject({ code: 'PORT_NOT_LISTENING', status: 502, details: { port } })
    expect((refused as { details: { listening: number[] } }).details.listening).toContain(app.port)
    expect(await listeningPorts(sandbox.link)).toContain(app.port)
    expect(await listeningPorts(sandbox.link)).not.toContain(port)
  })

  test('leaves the channel for what comes next', async () => {
    const port = await freePort()
    for (let n = 0; n < 50; n++) await expect(dial(port)).rejects.toMatchObject({ code: 'PORT_NOT_LISTENING' })
    expect((await run(sandbox, 'echo there')).stdout).toBe('there\n')
  })
})

test('a program on ::1 alone is found', async ({ skip }) => {
  const app = await tcp((socket) => socket.end('six'), '::1').catch(() => undefined)
  if (app === undefined) return skip('this machine has no IPv6')
  await using _ = app
  const tunnel = await dial(app.port)
  expect(tunnel.host).toBe('::1')
  tunnel.end()
  expect(await text(tunnel)).toBe('six')
})

test('a program that breaks off is told from one that ends', async () => {
  await using app = await tcp((socket) => socket.resetAndDestroy())
  // It may be gone before the connection is told of as it is after.
  const broken = await dial(app.port)
    .then(
      (tunnel) => text(tunnel),
      (error: unknown) => Promise.reject(error),
    )
    .catch((error: unknown) => error)
  expect(broken).toMatchObject({ code: 'CONNECTION_RESET', status: 502 })
})

test('a client that breaks off is told to the program', async () => {
  const ended = Promise.withResolvers<string>()
  await using app = await tcp((socket) => {
    socket.on('error', (error: NodeJS.ErrnoException) => ended.resolve(error.code ?? ''))
    socket.on('end', () => ended.resolve('end')).resume()
  })
  const tunnel = await dial(app.port)
  tunnel.destroy()
  expect(await ended.promise).toBe('ECONNRESET')
})

test('a connection that ended both ways gives its channel back', async () => {
  await using echo = await tcp((socket) => socket.pipe(socket))
  const channels = async (): Promise<unknown> => (await sandbox.link.call('statistics', {})).channels
  const round = async (): Promise<void> => {
    const tunnel = await dial(echo.port)
    tunnel.end('x')
    expect(await text(tunnel)).toBe('x')
  }
  await round()
  const before = await channels()
  for (let n = 0; n < 100; n++) await round()
  expect(await channels()).toBe(before)
})

test('a client that gives up while the connection is made is done with', async () => {
  await using app = await tcp(() => {})
  await expect(dialPort(sandbox.link, app.port, { signal: AbortSignal.abort() })).rejects.toThrow()
  const tunnel = await dial(app.port)
  tunnel.destroy()
  expect((await run(sandbox, 'echo there')).stdout).toBe('there\n')
})

test('an agent that starts again breaks connections off, with an error for who reads them', async () => {
  await using own = await TestSandbox.start({}, SUPERVISOR)
  const programSaw = Promise.withResolvers<string>()
  await using app = await tcp((socket) => socket.on('error', (error: NodeJS.ErrnoException) => programSaw.resolve(error.code ?? '')))
  const tunnel = await dialPort(own.link, app.port)
  const broken = text(tunnel).catch((error: unknown) => error)
  await own.relink()
  expect(await broken).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  expect(await programSaw.promise).toBe('ECONNRESET')
  const again = await dialPort(own.link, app.port)
  again.destroy()
})
