import { BoxofficeError } from '@boxoffice/protocol'
import { describe, expect, test } from 'vitest'
import { renderScope } from '../../src/domain/scope-template.ts'

const MESSAGE = { launcher_type: 'group', launcher_id: '123456', sender_id: '789', conversation_id: 'a1b2c3d4', query_id: 42 }

const refusal = (template: string, variables = {}): [string, string] => {
  try {
    renderScope(template, variables)
  } catch (thrown) {
    if (thrown instanceof BoxofficeError) return [thrown.code, thrown.message]
    throw thrown
  }
  throw new Error(`${template} was rendered`)
}

describe('scope template', () => {
  test('[0-01] every variable has its place', () => {
    expect(renderScope('{launcher_type}|{launcher_id}|{sender_id}|{conversation_id}|{query_id}', MESSAGE)).toBe(
      'group|123456|789|a1b2c3d4|42',
    )
  })

  test('[0-06] templates are free text', () => {
    expect(renderScope('{sender_id}', MESSAGE)).toBe('789')
    expect(renderScope('team/{sender_id}', MESSAGE)).toBe('team/789')
  })

  test('[0-07] what is not set is unknown, also under the names that every object has', () => {
    expect(renderScope('{launcher_type}_{nope}', { launcher_type: 'person' })).toBe('person_unknown')
    expect(renderScope('{constructor}-{__proto__}', {})).toBe('unknown-unknown')
  })

  test.each(['{a', '{a.b}', '{a[0]}', '{0}', '{a!r}', '{}', '{a:>9}', '}', 'x}y', '{{a}}', '{ a }', '{a}{'])(
    '[0-10] %s is refused and says where it is wrong',
    (template) => {
      const [code, message] = refusal(template, { a: 'x' })
      expect(code).toBe('INVALID_REQUEST')
      expect(message).toMatch(/^template: .*character \d+/)
    },
  )

  test('[0-11] an id has 1 to 200 characters, none of them a control character', () => {
    expect(refusal('{a}', { a: 'x'.repeat(201) })).toEqual(['INVALID_REQUEST', expect.stringMatching(/201 characters/)])
    expect(refusal('{a}', { a: '' })[0]).toBe('INVALID_REQUEST')
    expect(refusal('{a}', { a: '\ud800' })[0]).toBe('INVALID_REQUEST')
    expect(renderScope('{a}', { a: ' ../../etc\u0000\n ' })).toBe('%20../../etc%00%0A%20')
  })

  test('[0-12] no two sets of values render alike', () => {
    expect(renderScope('{a}_{b}', { a: 'group_1', b: '2' })).toBe('group%5F1_2')
    expect(renderScope('{a}_{b}', { a: 'group', b: '1_2' })).toBe('group_1%5F2')
    expect(renderScope('{a}ü{b}', { a: '1ü', b: '2' })).toBe('1%C3%BCü2')
    const values = ['', '_', '%', '%5F', '1', '11', '1_', '_1', '%-', '-', ' ']
    for (const template of ['{a}_{b}', '{a}{b}', '{a}{b}x', '{a}%-{b}', '{a}5F{b}', '-{a}_-{b}']) {
      const rendered = values.flatMap((a) =>
        values.map((b) => (template.replace(/\{.\}/g, '') + a + b === '' ? null : renderScope(template, { a, b }))),
      )
      const some = rendered.filter((id) => id !== null)
      expect(new Set(some).size, template).toBe(some.length)
    }
  })
})
