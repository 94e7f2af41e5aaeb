import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Program, startProgram } from '../e2e/support/program.ts'
import type { StackAddress } from './rows/row.ts'

const UNLIMITED = { per_second: 100_000, burst: 100_000 }
const ENROLL = 'bench-enroll-token-0123456789abcdefghij'

export type StackOptions = {
  name: string
  provider: 'docker' | 'local'
  /** Where configuration and data are. */
  scratch: string
  profiles: readonly object[]
  /** Of the agent; it takes a port for its inspector only where this asks for one. */
  agentEnv?: Record<string, string>
}

export interface Stack {
  readonly address: StackAddress
  readonly agent: Program
  /** Ends the agent with SIGKILL and starts it again on its data; resolves when it is ready. Its sandboxes live on. */
  restartAgent(): Promise<void>
  stop(): Promise<void>
}

/** Broker and agent as two processes, as in production; `up` would let one event loop carry both. */
export const startStack = async ({ name, provider, scratch, profiles, agentEnv }: StackOptions): Promise<Stack> => {
  const config = join(scratch, `${name}.json`)
  const data = join(scratch, name)
  const dataDir = join(data, 'agent')
  writeFileSync(
    config,
    JSON.stringify({ profiles, rate_limits: { create_per_principal: UNLIMITED, create_per_tenant: UNLIMITED }, max_sessions: 100_000 }),
  )
  const key = `bench-api-key-${name}-0123456789abcdefghijklmnop`
  const broker = await startProgram([
    ...['broker', '--port', '0', '--data-dir', data, '--enroll-token', ENROLL, '--api-key', key, '--config', config],
  ])
  const startAgent = (port: string): Promise<Program> => {
    const whom = ['--broker-url', broker.ready.broker_url, '--enroll-token', ENROLL]
    return startProgram(['agent', ...whom, '--port', port, '--data-dir', data, '--provider', provider, '--destroy-on-exit'], agentEnv)
  }
  let agent = await startAgent('0').catch(async (error: unknown) => {
    await broker.stop()
    throw error
  })
  return {
    get address() {
      const { broker_url: brokerUrl, pid: brokerPid } = broker.ready
      return { brokerUrl, apiKey: key, brokerPid, agentPid: agent.ready.pid, agentUrl: agent.ready.agent_url, dataDir }
    },
    get agent() {
      return agent
    },
    async restartAgent() {
      const { port } = new URL(agent.ready.agent_url)
      await agent.kill('SIGKILL')
      agent = await again(() => startAgent(port))
    },
    async stop() {
      sayIfEnded('agent', agent)
      sayIfEnded('broker', broker)
      await agent.stop()
      await broker.stop()
    },
  }
}

/** A program that ended by itself is why the row failed: its last words are needed. */
const sayIfEnded = (name: string, { child, stderr }: Program): void => {
  if (child.exitCode === null && child.signalCode === null) return
  process.stderr.write(`the ${name} ended by itself with ${child.signalCode ?? child.exitCode}:\n${stderr().slice(-4000)}\n`)
}

/** Somebody else may have taken the port for a moment. */
const again = async <T>(start: () => Promise<T>, tries = 20): Promise<T> => {
  try {
    return await start()
  } catch (error) {
    if (tries <= 1) throw error
    await new Promise((resolve) => setTimeout(resolve, 500))
    return again(start, tries - 1)
  }
}
