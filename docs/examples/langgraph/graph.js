import { getOrCreateSandboxForThread } from '@boxoffice/langgraph'
import { tool } from '@langchain/core/tools'
import { END, MemorySaver, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { z } from 'zod'
import { model } from './model.js'
import { client } from './sandboxes.js'

const run = tool(
  async ({ command }, { signal }) => {
    const { stdout, stderr, exitCode } = await (await getOrCreateSandboxForThread(client)).exec(command, { signal })
    return exitCode === 0 ? stdout : `exit code ${exitCode}\n${stdout}${stderr}`
  },
  { name: 'run', description: 'Runs a shell command in /workspace.', schema: z.object({ command: z.string() }) },
)

const writeFile = tool(
  async ({ path, content }) => {
    await (await getOrCreateSandboxForThread(client)).files.upload(path, content)
    return `wrote ${path}`
  },
  { name: 'write_file', description: 'Writes a file below /workspace.', schema: z.object({ path: z.string(), content: z.string() }) },
)

const readFile = tool(async ({ path }) => await (await getOrCreateSandboxForThread(client)).files.text(path), {
  name: 'read_file',
  description: 'Reads a file below /workspace.',
  schema: z.object({ path: z.string() }),
})

const agent = async ({ messages }) => ({ messages: [await model().invoke(messages)] })
const next = ({ messages }) => ((messages.at(-1).tool_calls ?? []).length > 0 ? 'tools' : END)

/** Each thread has a sandbox of its own, which stays while the thread does. */
export const graph = new StateGraph(MessagesAnnotation)
  .addNode('agent', agent)
  .addNode('tools', new ToolNode([run, writeFile, readFile]))
  .addEdge(START, 'agent')
  .addConditionalEdges('agent', next, ['tools', END])
  .addEdge('tools', 'agent')
  // A LangGraph server brings its own.
  .compile({ checkpointer: new MemorySaver() })
