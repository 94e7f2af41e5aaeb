import { sandboxRoutes } from '@boxoffice/langgraph'
import { broker } from './sandboxes.js'

/** Who a request is of. A real server asks its identity provider, and its own threads whose they are. */
const PEOPLE = { 'token-of-alice': 'alice' }

/** Routes beside those of the LangGraph server, by which people reach the sandboxes of their threads. */
export const app = sandboxRoutes({
  ...broker,
  authorize: (request, { threadId }) => {
    const name = PEOPLE[request.headers.get('authorization')?.replace('Bearer ', '')]
    return name !== undefined && threadId.startsWith(`${name}-`) ? { type: 'human', id: name } : undefined
  },
})
