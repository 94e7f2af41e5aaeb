import { connect, type Session } from '@boxoffice/client'
import { aiSandbox } from '@boxoffice/client/ai-sdk'
import { BoxofficeSandbox } from '@boxoffice/deepagents'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { API_KEY, type Stack, startStack } from '../e2e/support/stack.ts'
import { connectMcp } from './support/mcp-connection.ts'

/** Such a sandbox has its workspace, and no file system of its own. */
let stack: Stack
let session: Session
beforeAll(async () => {
  stack = await startStack({ provider: 'local', agentArgs: ['--isolation', 'none'] })
  session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session('shared')
})
afterAll(() => stack?.[Symbol.asyncDispose]())

test('[3.8] MCP tools take paths below /workspace', async () => {
  const host = await connectMcp({ transport: 'http', era: 'modern', brokerUrl: stack.brokerUrl, thread: 'shared' })
  await host.call('write_file', { path: '/workspace/mcp/a.txt', content: 'one' })
  await host.call('edit_file', { path: '/workspace/mcp/a.txt', old_text: 'one', new_text: 'two' })
  expect(await host.call('read_file', { path: '/app/mcp/a.txt' })).toMatchObject({ content: 'two' })
  expect(await host.call('list_dir', { path: '/workspace/mcp' })).toMatchObject({ entries: [{ path: 'mcp/a.txt' }] })
  for (const path of ['/workspace/mcp', '/app/mcp', 'mcp'])
    expect(await host.call('grep', { pattern: 'tw', path })).toMatchObject({ matches: [{ path: 'mcp/a.txt', line: 1, text: 'two' }] })
  expect(await session.files.text('mcp/a.txt')).toBe('two')
  expect(await host.refused('read_file', { path: '/etc/passwd' })).toMatch(/^UNSUPPORTED: /)
  await host.close()
})

test('[7.1] deepagents keeps files below /workspace', async () => {
  const sandbox = await BoxofficeSandbox.create({ url: stack.brokerUrl, auth: { apiKey: API_KEY }, threadId: 'shared' })
  expect(await sandbox.write('/workspace/agents/a.txt', 'one')).toMatchObject({ path: '/workspace/agents/a.txt' })
  expect(await sandbox.edit('agents/a.txt', 'one', 'two')).toMatchObject({ occurrences: 1 })
  expect(await sandbox.read('/workspace/agents/a.txt')).toMatchObject({ content: '     1\ttwo\n' })
  expect(await sandbox.grep('tw', '/agents')).toMatchObject({ matches: [{ path: '/agents/a.txt', line: 1 }] })
  expect(await sandbox.read('/app/agents/a.txt')).toMatchObject({ content: '     1\ttwo\n' })
  expect(await sandbox.grep('tw', '/app/agents')).toMatchObject({ matches: [{ path: '/app/agents/a.txt', line: 1 }] })
  expect((await sandbox.glob('*.txt', '/app/agents')).files?.map(({ path }) => path)).toEqual(['a.txt'])
  expect((await sandbox.glob('*.txt', '/agents')).files?.map(({ path }) => path)).toEqual(['a.txt'])
  expect((await sandbox.ls('/workspace')).files?.map(({ path }) => path)).toContain('/workspace/agents/')
  expect((await sandbox.ls('/app/agents')).files?.map(({ path }) => path)).toEqual(['/app/agents/a.txt'])
  expect(await sandbox.ls('/agents/a.txt')).toEqual({ files: [] })
  expect(await sandbox.delete('/agents')).toMatchObject({ path: '/agents' })
  expect(await session.files.exists('agents')).toBe(false)
  await sandbox.close({ keepSandbox: true })
})

test('the AI SDK takes paths below /workspace', async () => {
  const sandbox = aiSandbox(session)
  await sandbox.writeTextFile({ path: '/workspace/ai/a.txt', content: 'one' })
  expect(await sandbox.listDirectory({ path: '/workspace/ai' })).toEqual([{ name: 'a.txt', type: 'file' }])
})
