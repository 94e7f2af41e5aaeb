import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { dialPort, listeningPorts } from '../../src/supervisor/tunnel.ts'
import { encodeFrame, FRAME } from '../../src/supervisor/wire.ts'
import { run } from '../host/support/exec.ts'
import { eventually } from '../support/eventually.ts'
import { FakeSupervisor, socketsOf, withLink } from '../support/fake-supervisor.ts'
import { freePort, pattern, tcp } from '../support/listening.ts'
import { SUPERVISOR, TestSandbox } from '../support/sandbox.ts'

const MIB = 1024 * 1024
/** As many as a supervisor carries at once. */
const CONNECTIONS = 256

type Way = { sandbox: TestSandbox; port: number; program(): Socket }

/** A sandbox whose programs get out by a port, to `handler`. */
const startWay = async (handler: (connection: Duplex) => void, options: { idleMs?: number } = {}): Promise<Way & AsyncDisposable> => {
  const sandbox = await TestSandbox.start({}, SUPERVISOR, options)
  const port = await freePort()
  sandbox.link.onEgress(handler)
  await sandbox.link.listenForEgress(port)
  return {
    sandbox,
    port,
    program: () => connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {}),
    [Symbol.asyncDispose]: () => sandbox[Symbol.asyncDispose](),
  }
}

test('each way of a connection ends by itself', async () => {
  await using way = await startWay((connection) => void text(connection).then((all) => connection.end(`heard ${all}`)))
  const first = way.program()
  first.end('all')
  expect(await text(first)).toBe('heard all')

  const heard = Promise.withResolvers<string>()
  way.sandbox.link.onEgress((connection) => {
    connection.end('said')
    void text(connection).then(heard.resolve)
  })
  const second = way.program()
  expect(await text(second)).toBe('said')
  second.end('late')
  expect(await heard.promise).toBe('late')
})

test('64 MiB pass both ways at once, byte for byte', async () => {
  await using way = await startWay((connection) => connection.pipe(connection))
  const sent = pattern(64 * MIB)
  const program = way.program()
  program.end(sent)
  expect((await buffer(program)).equals(sent)).toBe(true)
}, 120_000)

test('a program that does not read holds up what is sent to it, and nothing else', async () => {
  const taken = Promise.withResolvers<Duplex>()
  await using way = await startWay((connection) => taken.resolve(connection))
  const program = way.program().pause()
  const connection = await taken.promise
  connection.on('error', () => {})
  let written = 0
  const more = (): void => {
    while (connection.write(pattern(MIB))) written++
    written++
    connection.once('drain', more)
  }
  more()
  let before = -1
  await eventually(async () => {
    expect((await run(way.sandbox, 'echo beside')).stdout).toBe('beside\n')
    const now = written
    const stands = now === before
    before = now
    expect(stands).toBe(true)
  })
  expect(before).toBeLessThan(64)
  program.destroy()
})

test('a connection that either side breaks off is reset for the other', async () => {
  const connections: Duplex[] = []
  await using way = await startWay((connection) => void connections.push(connection.on('error', () => {})))
  const first = way.program()
  first.write('x')
  await eventually(() => expect(connections).toHaveLength(1))
  connections[0]?.destroy()
  const [error] = (await once(first, 'error')) as [NodeJS.ErrnoException]
  expect(error.code).toBe('ECONNRESET')

  const second = way.program()
  second.write('x')
  await eventually(() => expect(connections).toHaveLength(2))
  const broken = once(connections[1] as Duplex, 'error')
  second.resetAndDestroy()
  expect((await broken)[0]).toMatchObject({ code: 'CONNECTION_RESET' })
})

test(`${CONNECTIONS} connections go at once, and others wait for the end of one`, async () => {
  const taken: Duplex[] = []
  await using way = await startWay((connection) => {
    taken.push(connection.on('error', () => {}))
    connection.write('taken')
  })
  const programs = Array.from({ length: CONNECTIONS + 10 }, () => way.program())
  await eventually(() => expect(taken).toHaveLength(CONNECTIONS))
  expect((await run(way.sandbox, 'echo beside')).stdout).toBe('beside\n')
  expect(taken).toHaveLength(CONNECTIONS)
  for (const connection of taken.slice(0, 10)) connection.destroy()
  await eventually(() => expect(taken).toHaveLength(CONNECTIONS + 10))
  for (const program of programs) program.destroy()
})

test('a sandbox that rests gets out, and rests again', async () => {
  await using way = await startWay((connection) => connection.end('out'), { idleMs: 100 })
  for (let n = 0; n < 3; n++) {
    await eventually(() => expect(socketsOf(way.sandbox.directory)).toBe(1))
    const program = way.program()
    expect(await text(program)).toBe('out')
    program.destroy()
  }
})

test('connections wait for an agent that is not there yet', async () => {
  await using way = await startWay((connection) => connection.end('before'))
  expect(await text(way.program())).toBe('before')
  await way.sandbox.link.close()
  const program = way.program()
  await once(program, 'connect')
  await way.sandbox.relink((link) => link.onEgress((connection) => connection.end('after')))
  expect(await text(program)).toBe('after')
})

test('who does not know the secret is refused 10,000 times, and programs get out meanwhile', async () => {
  const taken: Duplex[] = []
  await using way = await startWay((connection) => {
    taken.push(connection)
    connection.end('out')
  })
  const hello = encodeFrame(FRAME.hello, { version: 1, pid: 1, kind: 'egress', channel: 1, secret: '0'.repeat(64) })
  const before = process.memoryUsage().rss
  for (let round = 0; round < 100; round++) {
    const refused = Array.from({ length: 100 }, () => {
      const socket = connect(`${way.sandbox.directory}/link.sock`).on('error', () => {})
      socket.write(hello)
      return new Promise((resolve) => socket.resume().once('close', resolve))
    })
    const program = way.program()
    expect(await text(program)).toBe('out')
    await Promise.all(refused)
  }
  expect(taken).toHaveLength(100)
  expect(process.memoryUsage().rss - before).toBeLessThan(100 * MIB)
}, 120_000)

test('the port of the way out is neither listed nor dialled', async () => {
  await using way = await startWay((connection) => connection.end('out'))
  const { link } = way.sandbox
  expect(await listeningPorts(link)).not.toContain(way.port)
  await expect(dialPort(link, way.port)).rejects.toMatchObject({ code: 'PORT_NOT_LISTENING' })
  expect(await text(way.program())).toBe('out')
})

test('a port that a program has is told, and so is a supervisor of before', async () => {
  await using other = await tcp(() => {})
  await using way = await startWay(() => {})
  await expect(way.sandbox.link.listenForEgress(other.port)).rejects.toThrow()
  await withLink({ idleMs: 60_000 }, async (link, directory) => {
    const supervisor = new FakeSupervisor(directory, { spares: true, dials: true })
    await eventually(() => expect(link.connected).toBe(true))
    await expect(link.listenForEgress(other.port)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    supervisor.end()
  })
})
