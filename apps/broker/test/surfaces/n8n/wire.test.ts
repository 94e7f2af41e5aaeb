import { BoxofficeError } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { render } from '../../../src/surfaces/n8n/errors.ts'
import { readExecution } from '../../../src/surfaces/n8n/execution-request.ts'
import { readSequence, resumeAt, sequenceOf } from '../../../src/surfaces/n8n/sequence.ts'

const refused = (code: string) => expect.objectContaining({ code })
const MIB = 1024 * 1024

test('a seq tells where both streams go on', () => {
  for (const [stdout, stderr] of [
    [0, 0],
    [7, 0],
    [0, 7],
    [63 * MIB, 64 * MIB - 1],
  ] as const)
    expect(readSequence(String(sequenceOf({ stdout, stderr })))).toEqual({ stdout, stderr })
  expect(Number.isSafeInteger(sequenceOf({ stdout: 64 * MIB - 1, stderr: 64 * MIB - 1 }))).toBe(true)
})

test('a client goes on also in a stream of many GiB', () => {
  const oldest = 5000 * MIB - 3
  for (const at of [oldest, oldest + 1, oldest + 5, oldest + MIB])
    expect(resumeAt(oldest, readSequence(String(sequenceOf({ stdout: at, stderr: 0 }))).stdout)).toBe(at)
  for (const lost of [oldest - 1, oldest - MIB]) expect(resumeAt(oldest, lost % (64 * MIB))).toBeUndefined()
  expect(resumeAt(0, 0)).toBe(0)
})

test('what is no seq is refused', () => {
  for (const bad of ['', '-1', '1.5', '1e3', 'x', ' 1', '0x10', String(2 ** 52), '99999999999999999'])
    expect(() => readSequence(bad), bad).toThrow(refused('INVALID_REQUEST'))
})

test('a command has a time limit, and its id where the client names one', () => {
  expect(readExecution({ command: 'true' }).frame).toEqual({
    command: 'true',
    stdin: 'closed',
    detach: true,
    timeout_seconds: 300,
    mode: 'mirror',
  })
  const { frame } = readExecution({ command: 'x', env: { A: 'b' }, workdir: '/tmp', timeout_ms: 1500, exec_id: 'a-1', more: true })
  expect(frame).toMatchObject({ env: { A: 'b' }, cwd: '/tmp', timeout_seconds: 1.5, exec_id: 'a-1' })
  for (const bad of [
    {},
    { command: '' },
    { command: 'x', exec_id: '../a' },
    { command: 'x', env: { '1': 'a' } },
    { command: 'x', timeout_ms: -1 },
  ])
    expect(() => readExecution(bad)).toThrow(refused('INVALID_REQUEST'))
})

test('a refusal has its status twice', () => {
  expect(render(new BoxofficeError('FILE_NOT_FOUND', 'no file'))).toEqual({ status: 404, body: { error: 'no file', code: 404 } })
  expect(render(new BoxofficeError('SESSION_EXPIRED', 'x')).status).toBe(404)
  expect(render(new BoxofficeError('SANDBOX_STARTING', 'x')).status).toBe(503)
  expect(render(new BoxofficeError('RANGE_NOT_SATISFIABLE', 'x')).status).toBe(410)
})
