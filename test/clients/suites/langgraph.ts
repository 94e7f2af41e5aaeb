import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { connect } from '@boxoffice/client'
import { getOrCreateSandboxForThread, sandboxRoutes } from '@boxoffice/langgraph'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ROOT } from '../../e2e/support/program.ts'
import { API_KEY, type Stack } from '../../e2e/support/stack.ts'
import { programsOf, runProgram } from '../support/page-programs.ts'

const EXAMPLE = join(ROOT, 'docs/examples/langgraph')
const SERVER = 'http://langgraph.example'
const TOKENS: Readonly<Record<string, string>> = { 'token-of-alice': 'alice', 'token-of-bob': 'bob' }

/** A graph's threads, and the people who look into their sandboxes (contract 7.1). `whole` is false for what depends on the engine. */
export const langgraphSuite = (stack: () => Stack, { whole }: { whole: boolean }): void => {
  describe('LangGraph', () => {
    let app: ReturnType<typeof sandboxRoutes>
    const actions: string[] = []
    beforeAll(async () => {
      app = sandboxRoutes({
        url: stack().brokerUrl,
        auth: { apiKey: API_KEY },
        authorize: (request, { threadId, action }) => {
          const name = TOKENS[request.headers.get('authorization')?.replace('Bearer ', '') ?? '']
          actions.push(`${name} ${action}`)
          return name !== undefined && threadId.startsWith(`${name}-`) ? { type: 'human', id: name } : undefined
        },
      })
    })
    const newThread = (name = 'alice'): string => `${name}-${crypto.randomUUID()}`
    const operator = () => connect(stack().brokerUrl, { apiKey: API_KEY })
    /** A person's client, for whom the LangGraph server is the broker. */
    const clientOf = (name: string) =>
      connect(SERVER, {
        token: `token-of-${name}`,
        fetch: async (url, init) => (String(url).startsWith(SERVER) ? await app.request(String(url), init) : await fetch(url, init)),
      })
    const post = async (path: string, body: string, token = 'token-of-alice') => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
      const response = await app.request(`${SERVER}/v1/sandbox/sessions${path}`, { method: 'POST', headers, body })
      const { error } = (await response.json()) as { error?: { code: string } }
      return [response.status, error?.code]
    }

    test('[7.1] a node gets the sandbox of its thread, one for all who ask at once', async () => {
      const client = operator()
      const node = async () => {
        const sessions = await Promise.all(Array.from({ length: 5 }, () => getOrCreateSandboxForThread(client)))
        const ids = new Set(sessions.map(({ sandboxId }) => sandboxId))
        return { messages: [{ role: 'assistant', content: `${ids.size} ${sessions[0]?.sandboxId}` }] }
      }
      const graph = new StateGraph(MessagesAnnotation).addNode('node', node).addEdge(START, 'node').addEdge('node', END).compile()
      const run = async (thread_id: string) =>
        String((await graph.invoke({ messages: [] }, { configurable: { thread_id } })).messages.at(-1)?.content).split(' ')
      const [one, other] = [newThread(), newThread()]
      const [[count, first], [, second], [, again]] = [await run(one), await run(other), await run(one)]
      expect([count, first === again, first === second]).toEqual(['1', true, false])
      expect((await getOrCreateSandboxForThread(client, one)).sandboxId).toBe(first)
      expect((await getOrCreateSandboxForThread(client, { configurable: { thread_id: one } })).sandboxId).toBe(first)
      await expect(getOrCreateSandboxForThread(client)).rejects.toThrow('the run has no thread')
    })

    test('[7.1] people reach the sandboxes of their own threads with their own credential', async () => {
      const thread = newThread()
      const ofAgent = await operator().session(thread)
      await ofAgent.exec('echo from the agent > notes.txt')
      const alice = await clientOf('alice').session(thread)
      expect([alice.sandboxId, await alice.files.text('notes.txt')]).toEqual([ofAgent.sandboxId, 'from the agent\n'])
      const before = alice.expiresAt.getTime()
      await alice.refresh()
      expect(alice.expiresAt.getTime()).toBeGreaterThanOrEqual(before)
      expect((await alice.exec('echo from alice >> notes.txt; cat notes.txt')).stdout).toBe('from the agent\nfrom alice\n')
      expect((await alice.heartbeat()).binding.scope).toEqual({ type: 'thread', id: thread })
      await alice.release()
      expect(actions.at(-1)).toBe('alice release')
      await expect(operator().session(thread, { mode: 'get' })).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
    })

    test('[7.1] the example runs on two threads at once, over a restart of the broker, and alice joins in', async () => {
      const env = { ...process.env, BOXOFFICE_URL: stack().brokerUrl, BOXOFFICE_API_KEY: API_KEY }
      const program = spawn(join(ROOT, '.tools/node'), ['main.js'], { cwd: EXAMPLE, env, stdio: ['pipe', 'pipe', 'inherit'] })
      onTestFinished(() => {
        program.kill('SIGKILL')
      })
      const ended = once(program, 'exit')
      const lines: string[] = []
      for await (const line of createInterface({ input: program.stdout })) {
        lines.push(line)
        if (!line.startsWith('Restart the broker')) continue
        await stack().broker().kill('SIGKILL')
        await stack().startBroker()
        program.stdin.write('\n')
      }
      expect(await ended).toEqual([0, null])
      expect(lines.join('\n')).toMatch(
        /^agents: .*wrote hello.sh.*wrote hello.sh[\s\S]*agents: .*done.*done[\s\S]*alice reads: hello from [\w-]+ \| the same: true \| apart: true\nthe agent reads: hello from alice$/,
      )
    })
    if (!whole) return

    test('[7.1] people are refused the sandboxes of others, and what is not of a thread', async () => {
      const thread = newThread()
      const { id } = await operator().session(thread)
      await expect(clientOf('bob').session(thread)).rejects.toMatchObject({ code: 'FORBIDDEN' })
      for (const path of [`/${id}/refresh`, `/${id}/heartbeat`]) expect(await post(path, '{}', 'token-of-bob')).toEqual([403, 'FORBIDDEN'])
      const headers = { authorization: 'Bearer token-of-bob' }
      for (const method of ['GET', 'DELETE'])
        expect((await app.request(`${SERVER}/v1/sandbox/sessions/${id}`, { method, headers })).status).toBe(403)
      const workspace = await operator().session({ scope: { type: 'workspace', id: newThread() } })
      expect(await post(`/${workspace.id}/refresh`, '{}')).toEqual([404, 'SESSION_NOT_FOUND'])
      expect(await post('/..%2F..%2Fkeys/refresh', '{}')).toEqual([404, 'SESSION_NOT_FOUND'])
    })

    test('[7.1] a negotiation of a person says whom and what, and nothing else', async () => {
      const thread_id = newThread()
      expect(await post('', 'not json')).toEqual([400, 'INVALID_REQUEST'])
      expect(await post('', '{"mode":"ensure"}')).toEqual([400, 'INVALID_REQUEST'])
      expect(await post('', JSON.stringify({ thread_id, mode: 'create_only' }))).toEqual([400, 'INVALID_REQUEST'])
      expect(await post('', `"${'x'.repeat(70_000)}"`)).toEqual([413, 'PAYLOAD_TOO_LARGE'])
      const more = { actor: { type: 'human', id: 'bob' }, members: ['bob'], workspace: { host_path: '/etc' }, profile: 'none', scope: null }
      expect(await post('', JSON.stringify({ thread_id, mode: 'ensure', ...more }))).toEqual([200, undefined])
    })

    test('[7.1] a read of a session gives no token', async () => {
      const { id } = await operator().session(newThread())
      const headers = { authorization: 'Bearer token-of-alice' }
      const response = await app.request(`${SERVER}/v1/sandbox/sessions/${id}`, { headers })
      const body = (await response.json()) as Record<string, unknown>
      expect([response.status, body.session_id, body.token, body.credentials]).toEqual([200, id, undefined, undefined])
    })

    test('[7.1] a broker that is away is said to be, without its address', async () => {
      const lost = sandboxRoutes({
        url: 'http://127.0.0.1:1',
        auth: { apiKey: API_KEY },
        authorize: () => ({ type: 'human', id: 'alice' }),
      })
      const response = await lost.request(`${SERVER}/v1/sandbox/sessions`, { method: 'POST', body: '{"thread_id":"t"}' })
      expect([response.status, await response.text()]).toEqual([503, expect.not.stringContaining('127.0.0.1')])
    })

    test('[7.1] the program on docs/clients/langgraph.md prints what it says', async () => {
      const [program = ''] = programsOf('langgraph.md')
      expect(await runProgram(program, stack())).toBe('hello from /workspace\n')
    })
  })
}
