import { describe, expect, test } from 'vitest'
import {
  BUILT_IN_PROFILES,
  describeIssues,
  ExecRequest,
  NegotiateRequest,
  newSandboxId,
  newSessionId,
  ResizeFrame,
  SANDBOX_ID_PATTERN,
  ScopeId,
  SESSION_ID_PATTERN,
  Signal,
} from '../src/index.ts'

describe('[C-08] scope ids', () => {
  test.each(['t', 'thr_123', 'a b', 'ü', '☃', 'e\u0301', 'x'.repeat(256), '../../etc', '%00', '{}'])('%j is one', (id) => {
    expect(ScopeId.safeParse(id).data).toBe(id)
  })
  test.each(['', ' t', 't ', '\tt', 'a\nb', 'a\0b', '\u007f', '\u0085', 'x'.repeat(257), 7])('%j is none', (id) => {
    expect(ScopeId.safeParse(id).success).toBe(false)
  })
})

test('[C-07] ids are what their patterns say', () => {
  expect(newSessionId()).toMatch(SESSION_ID_PATTERN)
  expect(newSandboxId()).toMatch(SANDBOX_ID_PATTERN)
})

describe('[4-03] a refused request names its field', () => {
  test.each([
    [{}, 'mode'],
    [{ mode: 'get' }, 'thread_id'],
    [{ thread_id: 't' }, 'mode'],
    [{ thread_id: '', mode: 'get' }, 'thread_id'],
    [{ thread_id: 7, mode: 'get' }, 'thread_id'],
    [{ thread_id: 't', mode: 'x' }, 'mode'],
    [{ thread_id: 't', mode: null }, 'mode'],
    [{ scope: { type: 'team', id: 't' }, mode: 'get' }, 'scope.type'],
    [{ scope: { type: 'thread' }, mode: 'get' }, 'scope.id'],
    [{ scope: { type: 'thread', id: 't ' }, mode: 'get' }, 'scope.id'],
    [{ scope: 't', mode: 'get' }, 'scope'],
    [{ thread_id: 't', scope: { type: 'thread', id: 'u' }, mode: 'get' }, 'scope'],
    [{ thread_id: 't', scope: { type: 'workspace', id: 't' }, mode: 'get' }, 'scope'],
    [{ thread_id: 't', mode: 'get', actor: { type: 'robot', id: 'r' } }, 'actor.type'],
    [{ thread_id: 't', mode: 'get', actor: { type: 'human' } }, 'actor.id'],
    [{ thread_id: 't', mode: 'get', requested_capabilities: 'exec' }, 'requested_capabilities'],
    [{ thread_id: 't', mode: 'get', requested_capabilities: [1] }, 'requested_capabilities.0'],
    [{ thread_id: 't', mode: 'get', sandbox_hint: 1 }, 'sandbox_hint'],
    [{ thread_id: 't', mode: 'get', provider_preference: '' }, 'provider_preference'],
    [{ thread_id: 't', mode: 'get', members: ['a', ''] }, 'members.1'],
  ])('%j → %s', (body, field) => {
    const parsed = NegotiateRequest.safeParse(body)
    expect(parsed.success).toBe(false)
    if (!parsed.success) expect(describeIssues(parsed.error)).toMatch(new RegExp(`^${field}: `))
  })
  test.each([
    [{ 'a\nb': 'x' }, 'labels: the name of "a\\nb" must not contain control characters'],
    [{ fine: 'x', bad: 'x\u0000' }, 'labels: the value of "bad" must not contain control characters'],
    [{ bad: '\u0085' }, 'labels: the value of "bad" must not contain control characters'],
  ])('labels %j: the label is named', (labels, message) => {
    const parsed = NegotiateRequest.safeParse({ thread_id: 't', mode: 'ensure', labels })
    expect(parsed.error && describeIssues(parsed.error)).toBe(message)
  })
  test('labels may hold anything else', () => {
    const labels = { 'team/name': 'ü ☃ {"a":1}', '': '' }
    expect(NegotiateRequest.safeParse({ thread_id: 't', mode: 'ensure', labels }).data?.labels).toEqual(labels)
  })
  test('[4-81, C-09] thread_id and scope may both be given when they are equal', () => {
    expect(NegotiateRequest.safeParse({ thread_id: 't', scope: { type: 'thread', id: 't' }, mode: 'get' }).success).toBe(true)
  })
  test('[4-18] unknown fields are ignored', () => {
    expect(NegotiateRequest.parse({ thread_id: 't', mode: 'get', future: 1 })).toEqual({ thread_id: 't', mode: 'get' })
  })
})

describe('exec requests', () => {
  test.each([
    [{ command: 'a\0b' }, 'command'],
    [{ argv: [] }, 'argv'],
    [{ argv: ['ls'], env: { 'A-B': '1' } }, 'env'],
    [{ argv: ['ls'], env: { A: '\0' } }, 'env.A'],
    [{ command: 'ls', exec_id: 'a/b' }, 'exec_id'],
    [{ command: 'ls', timeout_seconds: -1 }, 'timeout_seconds'],
    [{ command: 'ls', max_output_bytes: 16 * 1024 * 1024 + 1 }, 'max_output_bytes'],
    [{ command: 'ls', stdin_base64: '***' }, 'stdin_base64'],
  ])('%j is refused and names %s', (body, field) => {
    const parsed = ExecRequest.safeParse(body)
    expect(parsed.success).toBe(false)
    if (!parsed.success) expect(describeIssues(parsed.error)).toContain(field)
  })

  test.each([
    ['SIGTERM', 'TERM'],
    ['INT', 'INT'],
  ])('signal %s is %s', (given, read) => {
    expect(Signal.parse(given)).toBe(read)
  })
  test.each(['SEGV', 'SIG', '', 9])('signal %j is refused', (given) => {
    expect(Signal.safeParse(given).success).toBe(false)
  })
})

test('sizes of a terminal are clamped to 1..1000', () => {
  expect(ResizeFrame.parse({ type: 'resize', cols: 0, rows: 5000 })).toMatchObject({ cols: 1, rows: 1000 })
})

test('[2-04] the four built-in profiles have the values of the contract', () => {
  expect(
    BUILT_IN_PROFILES.map(({ name, network, cpus, memory_mb, pids_limit, read_only_rootfs }) => [
      name,
      network,
      cpus,
      memory_mb,
      pids_limit,
      read_only_rootfs,
    ]),
  ).toEqual([
    ['default', 'off', 1, 512, 128, true],
    ['offline_readonly', 'off', 0.5, 256, 64, true],
    ['network_basic', 'on', 1, 512, 128, true],
    ['network_extended', 'on', 2, 1024, 256, false],
  ])
})
