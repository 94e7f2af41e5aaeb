import { randomUUID } from 'node:crypto'
import { connect } from '@boxoffice/client'
import { BoxofficeSandbox, SANDBOX_PROMPT, type ThreadsOptions } from '@boxoffice/deepagents'
import { AIMessage, type BaseMessage, ToolMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { createDeepAgent } from 'deepagents'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, type Mode, type Stack } from '../../e2e/support/stack.ts'
import { programsOf, runProgram } from '../support/page-programs.ts'

type Call = { name: string; args: Record<string, unknown> }
const execute = (command: string): Call => ({ name: 'execute', args: { command } })

/** An agent whose model calls these tools, turn by turn, and then says that it is done. */
const agentOf = (backend: BoxofficeSandbox, turns: readonly (readonly Call[])[]) => {
  const model = fakeModel()
  for (const turn of turns) model.respondWithTools(turn.map((call) => ({ ...call, id: randomUUID() })))
  model.respond(new AIMessage('done'))
  return createDeepAgent({ model, backend, systemPrompt: SANDBOX_PROMPT })
}

/** What the tools answered, in order. */
const answersOf = ({ messages }: { messages: BaseMessage[] }): string[] =>
  messages.filter((message) => ToolMessage.isInstance(message)).map(({ content }) => String(content))

const SUCCEEDED = '\n[Command succeeded with exit code 0]'

/** Whole runs of real agents, on one backend for all threads (contract 7.1). `whole` is false for what depends on the engine. */
export const runsSuite = (stack: () => Stack, mode: Mode, { whole }: { whole: boolean }): void => {
  describe('runs of deepagents', () => {
    let backend: BoxofficeSandbox
    const backendOf = (more: ThreadsOptions = {}) =>
      BoxofficeSandbox.forThreads({ url: stack().brokerUrl, auth: { apiKey: API_KEY }, initialFiles: { 'seed.txt': 'seed' }, ...more })
    const run = async (turns: readonly (readonly Call[])[], configurable: Record<string, unknown>, own = backend): Promise<string[]> =>
      answersOf(await agentOf(own, turns).invoke({ messages: [{ role: 'user', content: 'go' }] }, { configurable, recursionLimit: 100 }))
    const sessionOf = (thread: string) => connect(stack().brokerUrl, { apiKey: API_KEY }).session(thread, { mode: 'get' })
    beforeAll(async () => {
      backend = backendOf()
    })
    afterAll(async () => {
      await backend?.close()
    })

    test('[7.1] keep two threads apart that run at once, and find their thread again', async () => {
      const threads = [randomUUID(), randomUUID()]
      expect([backend.isRunning, backend.id === '']).toEqual([true, false])
      const write = (thread: string): Call => ({ name: 'write_file', args: { file_path: '/workspace/who.txt', content: `${thread}\n` } })
      const answers = await Promise.all(
        threads.map((thread) => run([[write(thread)], [execute('cat seed.txt who.txt; echo changed > seed.txt')]], { thread_id: thread })),
      )
      expect(answers.map(([, second]) => second)).toEqual(threads.map((thread) => `seed${thread}\n${SUCCEEDED}`))
      const later = backendOf()
      expect(await run([[execute('cat seed.txt who.txt')]], { thread_id: threads[0] }, later)).toEqual([
        `changed\n${threads[0]}\n${SUCCEEDED}`,
      ])
      await later.close()
    })

    test('[7.1] of a sub-agent work in the sandbox of its parent', async () => {
      const thread = randomUUID()
      const model = fakeModel()
        .respondWithTools([{ name: 'task', args: { description: 'write it', subagent_type: 'general-purpose' }, id: 'a' }])
        .respondWithTools([{ ...execute('echo from-the-sub-agent > sub.txt'), id: 'b' }])
        .respond(new AIMessage('written'))
        .respondWithTools([{ ...execute('cat sub.txt'), id: 'c' }])
        .respond(new AIMessage('done'))
      const agent = createDeepAgent({ model, backend })
      const result = await agent.invoke({ messages: [{ role: 'user', content: 'go' }] }, { configurable: { thread_id: thread } })
      expect(answersOf(result).at(-1)).toBe(`from-the-sub-agent\n${SUCCEEDED}`)
    })

    test('[7.1] make fifty parallel calls in one turn: all answer, in one sandbox', async () => {
      const thread = randomUUID()
      const calls = Array.from({ length: 50 }, (_, i) => execute(`echo line-${i} >> all.txt; echo ${i}`))
      const answers = await run([calls, [execute('sort -u all.txt | wc -l')]], { thread_id: thread })
      expect(answers).toEqual([...calls.map((_, i) => `${i}\n${SUCCEEDED}`), `50\n${SUCCEEDED}`])
      const { sandboxId } = await sessionOf(thread)
      const sessions = await connect(stack().brokerUrl, { apiKey: API_KEY }).sessions.list({ scopeType: 'thread', scopeId: thread })
      expect(sessions.map(({ sandbox_id }) => sandbox_id)).toEqual([sandboxId])
    })

    test('[7.1] finish with the right output when the agent is killed in a command, which runs once', async () => {
      const thread = randomUUID()
      const steps = 30
      const command = `echo run >> runs.txt; for i in $(seq ${steps}); do echo $i; sleep 0.1; done; wc -l < runs.txt`
      const running = run([[execute(command)]], { thread_id: thread })
      const session = await sessionWith(() => sessionOf(thread), 'runs.txt')
      await stack().agent().kill('SIGKILL')
      await stack().startAgent()
      const lines = Array.from({ length: steps }, (_, i) => `${i + 1}\n`).join('')
      expect(await running).toEqual([`${lines}1\n${SUCCEEDED}`])
      expect(await session.files.text('runs.txt')).toBe('run\n')
    })

    if (!whole) return

    test('[7.1] go on over a restart of the broker', async () => {
      const thread = randomUUID()
      await run([[execute('echo before > state.txt')]], { thread_id: thread })
      await stack().broker().kill('SIGKILL')
      const running = run([[execute('cat state.txt')], [execute('echo after')]], { thread_id: thread })
      const started = run([[execute('cat seed.txt')]], { thread_id: randomUUID() })
      await stack().startBroker()
      expect(await running).toEqual([`before\n${SUCCEEDED}`, `after\n${SUCCEEDED}`])
      expect(await started).toEqual([`seed${SUCCEEDED}`])
    })

    test('[7.1] that are cancelled end their command', async () => {
      const thread = randomUUID()
      const controller = new AbortController()
      const agent = agentOf(backend, [[execute('touch begun.txt; sleep 600')]])
      const config = { configurable: { thread_id: thread }, signal: controller.signal }
      const running = agent.invoke({ messages: [{ role: 'user', content: 'go' }] }, config)
      const ended = expect(running).rejects.toThrow()
      const session = await sessionWith(() => sessionOf(thread), 'begun.txt')
      controller.abort()
      await ended
      await expect.poll(async () => (await session.exec('grep -lx sleep /proc/[0-9]*/comm || true')).stdout).toBe('')
    })

    test('[7.1] of the program on docs/clients/deepagents.md print what it says', async () => {
      const [program = ''] = programsOf('deepagents.md')
      expect(await runProgram(program, stack())).toBe(`hello from /workspace\n${SUCCEEDED}\n`)
    })

    test('[7.1] without a thread are told so', async () => {
      await expect(async () => await backend.execute('true')).rejects.toMatchObject({ code: 'THREAD_REQUIRED' })
    })

    test('[7.1] take a session of configurable.sandbox only while the broker is away, if it is what it says', async () => {
      const [thread, other] = [randomUUID(), randomUUID()]
      const block = await negotiate(stack(), thread)
      const foreign = await negotiate(stack(), other)
      const host = new URL(block.sandbox.http_base_url).host
      const attempt = async (sandbox: unknown, allowHosts: string[] = [host]) => {
        const own = backendOf({ allowHosts, retryWindowMs: 250, initialFiles: {} })
        try {
          return await run([[execute('echo answered')]], { thread_id: thread, sandbox }, own)
        } finally {
          await own.close()
        }
      }
      expect(await attempt({ session_id: block.session_id })).toEqual([`answered\n${SUCCEEDED}`])
      await expect(attempt({ session_id: foreign.session_id })).rejects.toMatchObject({ code: 'BOOTSTRAP_REFUSED' })
      // The broker answers, so that the block does not matter.
      expect(await attempt({ ...foreign, token: 'x' })).toEqual([`answered\n${SUCCEEDED}`])
      if (mode === 'relay') return
      await stack().broker().kill('SIGKILL')
      const [head, payload] = block.token.split('.')
      const forged = { ...block, token: `${head}.${payload}.${'A'.repeat(86)}` }
      const refused = { code: 'BOOTSTRAP_REFUSED' }
      await Promise.all([
        expect(attempt(block)).resolves.toEqual([`answered\n${SUCCEEDED}`]),
        expect(attempt(block, [])).rejects.toMatchObject({ code: 'CONNECTION_FAILED' }),
        expect(attempt(block, ['elsewhere.example'])).rejects.toMatchObject(refused),
        expect(attempt(foreign)).rejects.toMatchObject(refused),
        expect(attempt({ ...foreign, thread_id: thread })).rejects.toMatchObject(refused),
        expect(attempt(forged)).rejects.toMatchObject(refused),
      ])
      await stack().startBroker()
    })
  })
}

type Block = { session_id: string; thread_id: string; token: string; sandbox: { http_base_url: string } }

const negotiate = async (stack: Stack, thread: string): Promise<Block> => {
  const response = await fetch(`${stack.brokerUrl}/v1/sandbox/sessions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json', prefer: 'wait=60' },
    body: JSON.stringify({ thread_id: thread, mode: 'ensure' }),
  })
  return (await response.json()) as Block
}

/** The session of a thread once it is there and has a file. */
const sessionWith = async (get: () => ReturnType<ReturnType<typeof connect>['session']>, file: string) => {
  await expect.poll(async () => (await get().catch(() => undefined))?.files.exists(file)).toBe(true)
  return await get()
}
