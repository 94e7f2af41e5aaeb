import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { ModelExecInput } from '../src/index.ts'

describe('the tool that runs commands for models', () => {
  test('[2-16] the tool takes exactly command, workdir, timeout_sec and env', () => {
    const schema = z.toJSONSchema(ModelExecInput, { io: 'input' })
    expect(Object.keys(schema.properties ?? {})).toEqual(['command', 'workdir', 'timeout_sec', 'env'])
    expect(schema).toMatchObject({ type: 'object', required: ['command'], additionalProperties: false })
  })

  test.each(['session_id', 'host_path', 'image', 'network', 'cmd'])('[2-16] %s is rejected by name', (field) => {
    const { success, error } = ModelExecInput.safeParse({ command: 'true', [field]: 'x' })
    expect(success).toBe(false)
    expect(error?.issues[0]?.message).toContain(field)
  })

  test.each([
    ['30', 30],
    [' 1.5 ', 1.5],
    [999.0, 999],
  ])('[2-16] timeout_sec %j is %j', (given, read) => {
    expect(ModelExecInput.parse({ command: 'true', timeout_sec: given }).timeout_sec).toBe(read)
  })

  test.each([0, -1, 'soon', '', null])('[2-16] timeout_sec %j is none', (given) => {
    expect(ModelExecInput.safeParse({ command: 'true', timeout_sec: given }).success).toBe(false)
  })
})
