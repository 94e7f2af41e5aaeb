import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { hintReads } from '../src/index.ts'

const MIB = 1024 * 1024
const PIECE = Buffer.alloc(MIB)

/** The most memory of buffers that there is while 256 MiB are read of a connection and discarded. */
const peakWhileDiscarding = async (prepare: (socket: Socket) => void): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sender = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [socket] = (await once(server, 'connection')) as [Socket]
  socket.resume()
  prepare(socket)
  const before = process.memoryUsage().arrayBuffers
  let peak = 0
  for (let i = 0; i < 256; i++) {
    await new Promise((resolve) => sender.write(PIECE, resolve))
    peak = Math.max(peak, process.memoryUsage().arrayBuffers - before)
  }
  sender.end()
  await once(socket, 'close')
  server.close()
  return peak
}

test('what is read of a connection and discarded is collected long before it is as much as an engine waits for', async () => {
  expect(await peakWhileDiscarding(hintReads)).toBeLessThan(16 * MIB)
})
