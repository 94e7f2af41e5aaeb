import { expect, test } from 'vitest'
import { CreationLanes } from '../../../src/store/postgres/engine/creation-lanes.ts'

test('three creations of a tenant are under way at once, and another tenant does not wait for them', async () => {
  const lanes = new CreationLanes()
  const begun: string[] = []
  const gates = Array.from({ length: 5 }, () => Promise.withResolvers<number>())
  const made = gates.map(({ promise }, i) =>
    lanes.run('north', () => {
      begun.push(`north ${i}`)
      return promise
    }),
  )
  expect(await lanes.run('south', async () => 'made')).toBe('made')
  expect(begun).toEqual(['north 0', 'north 1', 'north 2'])
  gates[1]?.resolve(1)
  expect(await made[1]).toBe(1)
  gates[0]?.reject(new Error('refused'))
  await expect(made[0]).rejects.toThrow('refused')
  for (const [i, gate] of gates.entries()) gate.resolve(i)
  expect(await Promise.all(made.slice(2))).toEqual([2, 3, 4])
})
