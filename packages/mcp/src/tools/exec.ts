import { execForModel } from '@boxoffice/client'
import { ModelExecInput, ModelExecResult } from '@boxoffice/protocol'
import { RUNS, toTool } from '../base/tool.ts'
import { BOUNDS } from './bounds.ts'

/** Runs a command and waits for its end: exactly `command, workdir, timeout_sec, env` [2-16]. */
export const exec = toTool({
  name: 'exec',
  title: 'Run a command',
  description:
    'Runs a line of shell in the sandbox of this conversation, by default for at most 30 seconds; what it leaves behind there stays',
  inputSchema: ModelExecInput,
  outputSchema: ModelExecResult,
  annotations: RUNS,
  async run(input, { session, signal }) {
    const result = await execForModel(await session(), input, { maxTimeoutSec: BOUNDS.execSeconds, signal })
    return { text: [JSON.stringify(result)], structuredContent: result }
  },
})
