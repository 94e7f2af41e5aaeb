import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BoxApi, boxOf, openRpc } from '../support/box.ts'
import { type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

type Message = { launcher_type: string; launcher_id: string; sender_id: string; conversation_id: string; query_id: number }
type Use = { session_id: string; sandbox: string; stdout: string }

const PER_CHAT = '{launcher_type}_{launcher_id}'
const message = (fields: Partial<Message> = {}): Message => ({
  ...{ launcher_type: 'person', launcher_id: '1', sender_id: '1', conversation_id: 'c1', query_id: 1 },
  ...fields,
})
const group = (sender_id: string, fields: Partial<Message> = {}): Message =>
  message({ launcher_type: 'group', launcher_id: '123456', sender_id, ...fields })

/** [0-14] The scenarios of seed 000: who is to meet in one sandbox, and who is not. `chat` keeps the rows apart from each other. */
const SCENARIOS: { name: string; pipeline: string; same?: [Message, Message]; different?: [Message, Message] }[] = [
  { name: '1 personal assistant', pipeline: 'per-chat', same: [message({ query_id: 1 }), message({ query_id: 2 })] },
  {
    name: '2 customer service, over two pipelines',
    pipeline: 'per-chat',
    same: [message({ launcher_id: 'kim' }), message({ launcher_id: 'kim' })],
  },
  {
    name: '3 employee tool',
    pipeline: 'per-chat',
    same: [message({ launcher_id: 'ann', query_id: 3 }), message({ launcher_id: 'ann', query_id: 4 })],
    different: [message({ launcher_id: 'ann' }), message({ launcher_id: 'bob' })],
  },
  { name: '4 group, shared', pipeline: 'per-chat', same: [group('789'), group('790')] },
  { name: '5 group, per user', pipeline: 'per-user', different: [group('789'), group('790')] },
  { name: '6 teaching, across channels', pipeline: 'per-sender', same: [group('789'), message({ launcher_id: '789', sender_id: '789' })] },
  { name: '7 one-off', pipeline: 'per-message', different: [message({ query_id: 41 }), message({ query_id: 42 })] },
  {
    name: '8 multi-project',
    pipeline: 'per-conversation',
    different: [message({ conversation_id: 'a1b2' }), message({ conversation_id: 'c3d4' })],
  },
]

/** Who shares a sandbox, and what every sandbox of a pipeline has in it (contract 4.3, 4.4). */
export const scopesSuite = (provider: ProviderName): void => {
  describe(`${provider}: scopes of pipelines`, () => {
    let stack: Stack
    let box: BoxApi
    let rpc: Awaited<ReturnType<typeof openRpc>>
    let skills: string
    beforeAll(async () => {
      skills = await mkdtemp(join(tmpdir(), 'bxo-skills-'))
      await chmod(skills, 0o755)
      for (const name of ['a', 'b']) {
        await mkdir(join(skills, name))
        await chmod(join(skills, name), 0o777)
        await writeFile(join(skills, name, 'SKILL.md'), `# skill ${name}\nverbatim: $HOME "quotes"\n`)
      }
      const template = (uuid: string, value?: string, more: object = {}) => ({
        uuid,
        ...(value === undefined ? {} : { 'box-session-id-template': value }),
        ...more,
      })
      stack = await startStack({
        provider,
        config: {
          box: {
            pipelines: [
              // As it was written before there was a choice.
              template('per-chat'),
              template('also-per-chat', PER_CHAT),
              template('per-user', `${PER_CHAT}_{sender_id}`),
              template('per-sender', '{sender_id}'),
              template('per-message', '{query_id}'),
              template('per-conversation', `${PER_CHAT}_{conversation_id}`),
              template('skilled', PER_CHAT, {
                skills: [
                  { name: 'a', package_root: join(skills, 'a') },
                  { name: 'b', package_root: join(skills, 'b') },
                  { name: 'missing', package_root: join(skills, 'missing') },
                ],
              }),
            ],
          },
        },
      })
      box = boxOf(stack)
      rpc = await openRpc(`${stack.brokerUrl}/compat/box/rpc/ws`)
    })
    afterAll(async () => {
      rpc?.close()
      await stack?.[Symbol.asyncDispose]()
      await rm(skills, { recursive: true, force: true })
    })

    const use = async (pipeline_uuid: string, variables: Message, cmd: string, more: object = {}): Promise<Use> => {
      const { code, message: problem, data } = await rpc.call('box_exec', { pipeline_uuid, variables, cmd, ...more })
      if (code !== 0) throw new Error(problem)
      const { session_id, stdout } = data as Use
      const { backend_session_id: sandbox } = (await box.get(session_id)).body as { backend_session_id: string }
      return { session_id, sandbox, stdout }
    }

    test.each(SCENARIOS)('[0-14] scope template, scenario $name', async ({ pipeline, same, different }) => {
      if (same !== undefined) {
        const mark = crypto.randomUUID()
        const first = await use(pipeline, same[0], `echo ${mark} > mark`)
        // The second pipeline of customer service is another with the same template.
        const second = await use(pipeline === 'per-chat' ? 'also-per-chat' : pipeline, same[1], 'cat mark')
        expect([second.sandbox, second.stdout]).toEqual([first.sandbox, `${mark}\n`])
      }
      if (different !== undefined) {
        const first = await use(pipeline, different[0], 'echo mine > other')
        const second = await use(pipeline, different[1], 'cat other 2>/dev/null || echo nothing')
        expect(second.sandbox).not.toBe(first.sandbox)
        expect(second.stdout).toBe('nothing\n')
      }
    })

    test('[0-15] in a group the sender matters only where the template names it', async () => {
      expect((await use('per-chat', group('1'), 'true')).sandbox).toBe((await use('per-chat', group('2'), 'true')).sandbox)
      expect((await use('per-user', group('1'), 'true')).sandbox).not.toBe((await use('per-user', group('2'), 'true')).sandbox)
    })

    test('[0-16] each message for itself can still be chosen', async () => {
      expect((await use('per-message', message({ query_id: 77 }), 'true')).session_id).toBe('77')
    })

    test('[0-17, 0-08] a pipeline without the key has the default, and nothing is said about it', async () => {
      expect((await use('per-chat', group('1'), 'true')).session_id).toBe('group_123456')
      expect(stack.broker().stderr()).not.toMatch(/"level":"?(50|error)/)
    })

    test('[0-29, 0-30, 0-31, 0-32, 0-33, 0-35, 0-52] extra mounts: all bound skills are there from the start, whichever is used first', async () => {
      const who = message({ launcher_id: 'skilled' })
      const first = await use('skilled', who, 'cat /workspace/.skills/a/SKILL.md; echo from-inside > /workspace/.skills/a/made', {
        skill_name: 'a',
      })
      const second = await use('skilled', who, 'cat /workspace/.skills/b/SKILL.md', { skill_name: 'b' })
      expect(first.stdout).toBe(await readFile(join(skills, 'a', 'SKILL.md'), 'utf8'))
      expect(second.stdout).toBe(await readFile(join(skills, 'b', 'SKILL.md'), 'utf8'))
      expect([second.session_id, second.sandbox]).toEqual([first.session_id, first.sandbox])
      expect(first.session_id).toBe('person_skilled')
      await eventually('it is on the host', async () => (await readFile(join(skills, 'a', 'made'), 'utf8')) === 'from-inside\n')
    })

    test('[0-20, 0-21, 0-22] fifty messages of one scope at once, from three directions: one sandbox, whose files stay', async () => {
      const who = message({ launcher_id: 'crowd' })
      const all = await Promise.all([
        ...Array.from({ length: 20 }, () => box.exec('person_crowd', 'true')),
        ...Array.from({ length: 20 }, () => box.create('person_crowd')),
        ...Array.from({ length: 10 }, () => box.exec('person_crowd', 'true', { pipeline_uuid: 'per-chat' })),
      ])
      expect(all.filter(({ status }) => status >= 300).map(({ text }) => text)).toEqual([])
      const { sandbox } = await use('per-chat', who, 'echo one > kept')
      expect(await use('also-per-chat', who, 'cat kept')).toEqual({ session_id: 'person_crowd', sandbox, stdout: 'one\n' })
      const sessions = ((await box.list()).body as { sessions: { session_id: string }[] }).sessions
      expect(sessions.filter(({ session_id }) => session_id === 'person_crowd')).toHaveLength(1)
    })
  })
}
