import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import { expect, onTestFinished, test } from 'vitest'
import { hintRead, hintReads, setFastIo } from '../src/index.ts'

const MIB = 1024 * 1024
/** Of a collection that was asked for. */
const FORCED = constants.NODE_PERFORMANCE_GC_FLAGS_FORCED
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

test('switched off it asks for nothing', async () => {
  const forced = Promise.withResolvers<number>()
  let count = 0
  const observer = new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries() as unknown as { detail: { flags: number } }[]) if ((detail.flags & FORCED) !== 0) count++
    if (count > 0) forced.resolve(count)
  })
  observer.observe({ entryTypes: ['gc'] })
  onTestFinished(() => observer.disconnect())
  onTestFinished(() => setFastIo({}))
  setFastIo({ gcHint: false })
  for (let i = 0; i < 10; i++) hintRead(64 * MIB)
  setFastIo({})
  hintRead(64 * MIB)
  expect(await forced.promise).toBe(1)
})
