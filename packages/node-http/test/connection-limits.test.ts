import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { type ConnectionLimits, limitConnections, markAuthenticated } from '../src/index.ts'

let server: Server
const clients: Socket[] = []
afterEach(() => {
  for (const client of clients.splice(0)) client.destroy()
  server.close()
})

const listen = async (limits: Partial<ConnectionLimits>): Promise<void> => {
  server = createServer()
  limitConnections(server, limits)
  await once(server.listen(0, '127.0.0.1'), 'listening')
}

/** A client, and the server's end of its connection. */
const dial = async (): Promise<{ client: Socket; accepted: Socket; closed: Promise<unknown> }> => {
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {})
  clients.push(client)
  const closed = once(client, 'close')
  client.resume()
  const [accepted] = (await once(server, 'connection')) as [Socket]
  accepted.on('error', () => {}).resume()
  return { client, accepted, closed }
}

test('[2.1] of one address, strangers above the bound push out the oldest; who has authenticated stays', async () => {
  await listen({ strangersPerAddress: 2 })
  const known = await dial()
  markAuthenticated(known.accepted)
  const oldest = await dial()
  const others = [await dial(), await dial()]
  await oldest.closed
  expect(oldest.accepted.destroyed).toBe(true)
  for (const { accepted } of [known, ...others]) expect(accepted.destroyed).toBe(false)
  // One that has gone by itself makes room.
  others[0]?.client.destroy()
  await once(others[0]?.accepted as Socket, 'close')
  const next = await dial()
  for (const { accepted } of [known, others[1] as (typeof others)[number], next]) expect(accepted.destroyed).toBe(false)
})

test('[2.1] trusted proxies have the total alone, of which the oldest stranger goes first', async () => {
  await listen({ strangersPerAddress: 1, total: 3, trustedProxies: ['127.0.0.1'] })
  const known = await dial()
  markAuthenticated(known.accepted)
  const [first, second, third] = [await dial(), await dial(), await dial()]
  await first.closed
  for (const { accepted } of [known, second, third]) expect(accepted.destroyed).toBe(false)
  for (const { accepted } of [second, third]) markAuthenticated(accepted)
  // Nobody is a stranger but the one that comes.
  const fourth = await dial()
  await fourth.closed
  for (const { accepted } of [known, second, third]) expect(accepted.destroyed).toBe(false)
})

const isOpen = ({ accepted }: { accepted: Socket }): boolean => !accepted.destroyed

test('[2.1] above the total, the principal that holds most loses its newest; who holds less, and who comes, stay', async () => {
  await listen({ total: 6 })
  const mine = await dial()
  markAuthenticated(mine.accepted, { tenant: 'default', principal: 'me' })
  const elsewhere = await dial()
  markAuthenticated(elsewhere.accepted, { tenant: 'other', principal: 'hog' })
  const hogs = [await dial(), await dial(), await dial(), await dial()]
  for (const { accepted } of hogs) markAuthenticated(accepted, { tenant: 'default', principal: 'hog' })
  const next = await dial()
  await hogs[3]?.closed
  expect([mine, elsewhere, ...hogs, next].map(isOpen)).toEqual([true, true, true, true, true, false, true])
  // As many strangers as the largest holds: they are the ones who hold most.
  const [second, third] = [await dial(), await dial()]
  await hogs[2]?.closed
  const fourth = await dial()
  await next.closed
  expect([mine, elsewhere, ...hogs.slice(0, 2), second, third, fourth].filter(isOpen)).toHaveLength(6)
})

test('[2.1] many that come at once, before the end of any is told, leave no more than the total', async () => {
  await listen({ total: 4 })
  const hogs = [await dial(), await dial(), await dial(), await dial()]
  for (const { accepted } of hogs) markAuthenticated(accepted, { tenant: 'default', principal: 'hog' })
  const accepted: Socket[] = []
  server.on('connection', (socket: Socket) => accepted.push(socket.on('error', () => {})))
  const port = (server.address() as AddressInfo).port
  for (let i = 0; i < 12; i++) clients.push(connect(port, '127.0.0.1').on('error', () => {}))
  await expect.poll(() => accepted.length, { timeout: 60_000 }).toBe(12)
  expect([...hogs.map((one) => one.accepted), ...accepted].filter((socket) => !socket.destroyed)).toHaveLength(4)
})

test('[2.1] a connection counts for whom it was used last, and for nobody once it has gone', async () => {
  await listen({ total: 3 })
  const handed = [await dial(), await dial()]
  for (const { accepted } of handed) markAuthenticated(accepted, { tenant: 'default', principal: 'hog' })
  for (const { accepted } of handed)
    markAuthenticated(accepted, { tenant: 'default', principal: accepted === handed[0]?.accepted ? 'a' : 'b' })
  const gone = await dial()
  gone.client.destroy()
  await once(gone.accepted, 'close')
  markAuthenticated(gone.accepted, { tenant: 'default', principal: 'a' })
  const [stranger, next] = [await dial(), await dial()]
  await stranger.closed
  expect([...handed, next].map(isOpen)).toEqual([true, true, true])
})
