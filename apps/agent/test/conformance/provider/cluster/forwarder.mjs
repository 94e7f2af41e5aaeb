// Runs in the network namespace of the cluster. Takes a listening socket of the machine from its parent, and joins what connects there
// with an address of the cluster.
import { connect } from 'node:net'

const [host, port] = process.argv.slice(2)

process.on('message', (_, server) => {
  server.on('connection', (client) => {
    const upstream = connect({ host, port: Number(port) })
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ]) {
      one.setNoDelay(true)
      one.pipe(other)
      one.on('error', () => other.destroy())
      one.on('close', () => other.destroy())
    }
  })
  process.send('ready')
})
process.on('disconnect', () => process.exit())
