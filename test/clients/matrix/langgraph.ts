import type { ClientMatrix } from '../compatibility/matrix.ts'

const passed = (operation: string, test: string) => ({ operation, result: 'passed', test: `[7.1] ${test}` }) as const

export const matrix: ClientMatrix = {
  client: 'LangGraph (JavaScript)',
  packages: [{ registry: 'npm', name: '@langchain/langgraph' }],
  page: 'langgraph.md',
  runs: 'local direct and through the relay; what depends on the engine also on docker, both ways',
  suites: ['test/clients/suites/langgraph.ts'],
  operations: [
    passed('StateGraph: the sandbox of a thread', 'a node gets the sandbox of its thread, one for all who ask at once'),
    passed(
      'StateGraph, ToolNode, checkpointer: two threads, a broker restarted',
      'the example runs on two threads at once, over a restart of the broker, and alice joins in',
    ),
    passed('http.app: negotiate, refresh, heartbeat, release', 'people reach the sandboxes of their own threads with their own credential'),
    passed('http.app: threads of others', 'people are refused the sandboxes of others, and what is not of a thread'),
  ],
}
