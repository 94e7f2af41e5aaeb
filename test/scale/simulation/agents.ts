import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openIdentity } from '../../../apps/agent/src/broker-link/identity.ts'
import { SimulatedAgent } from '../../../apps/agent/test/support/simulated-agent.ts'
import { many } from '../../bench/many.ts'

/**
 * `agents.ts BROKER_URL ENROLL_TOKEN COUNT ROOM USED`: that many agents in one process, each at an address of loopback of its own, as each
 * real one has a machine. Of all their sandboxes `USED` are used in a second. Tells its parent when all have registered, then each second
 * how many reports were answered; ends with it.
 */
const [, , brokerUrl = '', enrollToken = '', count = '', room = '', used = ''] = process.argv

/** How many register at once. */
const AT_ONCE = 100

const agents: SimulatedAgent[] = []
/** One server for all: whom a connection is for, the address says that it was made to. */
const server = createServer((request, response) => {
  const [, , high, low] = (request.socket.localAddress ?? '').split('.').map(Number)
  const agent = agents[(high ?? 0) * 256 + (low ?? 0)]
  if (agent === undefined) return void response.writeHead(404).end()
  agent.answer(request, response).catch(() => response.destroy())
})
server.keepAliveTimeout = 60_000
await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
const { port } = server.address() as AddressInfo

for (let i = 0; i < Number(count); i++) {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-'))
  const identity = await openIdentity(directory)
  await rm(directory, { recursive: true })
  agents.push(
    new SimulatedAgent({
      ...{ brokerUrl, enrollToken, identity, room: Number(room) },
      url: `http://127.1.${i >> 8}.${i & 255}:${port}`,
    }),
  )
}
await many(agents.length, AT_ONCE, async (i) => agents[i]?.start()).then(() => process.send?.({ type: 'registered' }))

setInterval(() => {
  const sandboxes = agents.reduce((sum, { size }) => sum + size, 0)
  // Whoever uses sandboxes uses them of all agents alike.
  for (let i = 0; i < Number(used); i++) agents[Math.floor(Math.random() * agents.length)]?.use(1)
  process.send?.({ type: 'reports', reports: agents.reduce((sum, { reports }) => sum + reports, 0), sandboxes })
}, 1000)
process.on('disconnect', () => process.exit())
