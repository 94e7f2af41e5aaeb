import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Agent, AgentConfig, type AgentOverrides, type AgentReady, createAgent } from '../../../apps/agent/src/index.ts'
import { silent } from '../../../apps/agent/test/host/support/host.ts'

/** A whole agent with local sandboxes in the process of the test. Its data directory goes with it, unless the test brought it. */
export type StartedAgent = AgentReady & { agent: Agent; dataDir: string; [Symbol.asyncDispose](): Promise<void> }

export const startAgent = async (
  fields: { brokerUrl: string; enrollToken: string; dataDir?: string } & Record<string, unknown>,
  overrides: AgentOverrides = {},
): Promise<StartedAgent> => {
  const dataDir = fields.dataDir ?? (await mkdtemp(join(tmpdir(), 'bxo-agent-')))
  const config = AgentConfig.parse({ port: 0, provider: 'local', destroyOnExit: true, ...fields, dataDir })
  const agent = createAgent(config, { log: silent, ...overrides })
  const remove = async (): Promise<void> => {
    if (fields.dataDir === undefined) await rm(dataDir, { recursive: true, force: true })
  }
  try {
    return {
      ...(await agent.start()),
      agent,
      dataDir,
      [Symbol.asyncDispose]: async () => {
        await agent.close()
        await remove()
      },
    }
  } catch (thrown) {
    await remove()
    throw thrown
  }
}
