import { describe, expect, test } from 'vitest'
import { readStep } from '../../../apps/broker/src/surfaces/sbs/step.ts'

const ID = '0b7c5f8e-6f0a-4c58-9a0d-3f5b0a1c2d3e'
const bash = { sandbox_id: ID, type: 'bash', payload: { cmd: 'ls -la' } }
const literal = { type: 'literal_error', loc: ['body', 'type'], msg: "Input should be 'bash' or 'python'" }
const expected = "'bash' or 'python'"

describe('what a step must have', () => {
  test.each([
    ['bash', bash, { type: 'bash', cmd: 'ls -la' }],
    ['python', { sandbox_id: ID, type: 'python', payload: { code: 'print(123)' } }, { type: 'python', code: 'print(123)' }],
    ['an empty command', { ...bash, payload: { cmd: '' } }, { type: 'bash', cmd: '' }],
    ['fields that nobody asked for', { ...bash, more: 1, payload: { cmd: 'x', code: 'y' } }, { type: 'bash', cmd: 'x' }],
  ])('[3-07, 3-08] %s is a step', (_, body, step) => {
    expect(readStep(body, ID)).toEqual({ step })
  })

  test.each<[string, unknown, unknown[]]>([
    [
      '[3-05] nothing',
      {},
      ['sandbox_id', 'type', 'payload'].map((name) => ({ type: 'missing', loc: ['body', name], msg: 'Field required', input: {} })),
    ],
    [
      '[3-05] no sandbox_id',
      { type: 'bash', payload: { cmd: 'ls' } },
      [{ type: 'missing', loc: ['body', 'sandbox_id'], msg: 'Field required', input: { type: 'bash', payload: { cmd: 'ls' } } }],
    ],
    [
      '[3-05] a sandbox_id that is a number',
      { ...bash, sandbox_id: 5 },
      [{ type: 'string_type', loc: ['body', 'sandbox_id'], msg: 'Input should be a valid string', input: 5 }],
    ],
    [
      '[3-06, C-70] another sandbox',
      { ...bash, sandbox_id: 'other' },
      [
        {
          type: 'value_error',
          loc: ['body', 'sandbox_id'],
          msg: 'sandbox_id must be equal to the session_id of the URL',
          input: 'other',
        },
      ],
    ],
    ['[3-07] another type', { ...bash, type: 'ruby' }, [{ ...literal, input: 'ruby', ctx: { expected } }]],
    ['[3-07] null for a type', { ...bash, type: null }, [{ ...literal, input: null, ctx: { expected } }]],
    [
      '[3-08] a payload that is a text',
      { ...bash, payload: 'ls' },
      [{ type: 'dict_type', loc: ['body', 'payload'], msg: 'Input should be a valid dictionary', input: 'ls' }],
    ],
    [
      '[3-08] code for bash',
      { ...bash, payload: { code: 'ls' } },
      [{ type: 'missing', loc: ['body', 'payload', 'cmd'], msg: 'Field required', input: { code: 'ls' } }],
    ],
    [
      '[3-08] cmd for python',
      { ...bash, type: 'python' },
      [{ type: 'missing', loc: ['body', 'payload', 'code'], msg: 'Field required', input: { cmd: 'ls -la' } }],
    ],
    [
      '[3-08] a list for a command',
      { ...bash, payload: { cmd: ['ls'] } },
      [{ type: 'string_type', loc: ['body', 'payload', 'cmd'], msg: 'Input should be a valid string', input: ['ls'] }],
    ],
    [
      '[3-08] NUL, which no program can be given',
      { ...bash, payload: { cmd: 'a\0b' } },
      [{ type: 'value_error', loc: ['body', 'payload', 'cmd'], msg: 'Value error, must not contain NUL', input: 'a\0b' }],
    ],
    [
      '[3-05] a list',
      [],
      [
        {
          type: 'model_attributes_type',
          loc: ['body'],
          msg: 'Input should be a valid dictionary or object to extract fields from',
          input: [],
        },
      ],
    ],
  ])('%s is refused', (_, body, detail) => {
    expect(readStep(body, ID)).toEqual({ detail })
  })
})
