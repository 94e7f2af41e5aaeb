// Runs the graph on two threads at once, waits (so that the broker may be restarted), and goes on; then alice looks into her sandbox.
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import { connect } from '@boxoffice/client'
import { app } from './app.js'
import { graph } from './graph.js'

const threads = [`alice-${randomUUID()}`, `alice-${randomUUID()}`]
const ask = async (thread_id, content) => {
  const { messages } = await graph.invoke({ messages: [{ role: 'user', content }] }, { configurable: { thread_id } })
  return messages.at(-1).content.trim()
}
const askAll = (content) => Promise.all(threads.map((thread) => ask(thread, content)))

console.log('agents:', await askAll('write'))
const terminal = createInterface({ input: process.stdin, output: process.stdout })
await terminal.question('Restart the broker now if you like, then press Enter.\n')
terminal.close()
console.log('agents:', await askAll('run'))
const results = await askAll('read')
console.log('agents read:', results)

// Alice has no key of Boxoffice. She asks the LangGraph server with a token of its own; here its app answers without a server.
const SERVER = 'http://langgraph.example'
const fetchOrApp = (url, init) => (String(url).startsWith(SERVER) ? app.request(String(url), init) : fetch(url, init))
const alice = connect(SERVER, { token: 'token-of-alice', fetch: fetchOrApp })
const session = await alice.session(threads[0], { mode: 'get' })
const sees = (await session.files.text('hello.txt')).trim()
console.log('alice reads:', sees, '| the same:', sees === results[0], '| apart:', results[0] !== results[1])
await session.files.upload('hello.txt', 'hello from alice\n')
console.log('the agent reads:', await ask(threads[0], 'read'))
for (const thread of threads) await (await alice.session(thread, { mode: 'get' })).release()
process.exit(0)
