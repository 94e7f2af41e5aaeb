import { startFakeAgent } from './fake-agent.ts'

/** A fake agent as a process of its own: `node run-fake-agent.ts <broker url> <enroll token>`. */
const [brokerUrl = '', enrollToken = ''] = process.argv.slice(2)
const agent = await startFakeAgent({ brokerUrl, enrollToken })
process.stdout.write(`${JSON.stringify({ event: 'ready', agent_id: agent.id, pid: process.pid })}\n`)
