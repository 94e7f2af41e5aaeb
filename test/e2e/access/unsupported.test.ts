import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BoxApi, boxOf } from '../support/box.ts'
import { type Stack, startStack } from '../support/stack.ts'

describe('local: what a provider without images is asked for', () => {
  let stack: Stack
  let box: BoxApi
  beforeAll(async () => {
    stack = await startStack({ provider: 'local', config: { box: { image: 'operator/image:1' }, images: { allowed: ['node:20'] } } })
    box = boxOf(stack)
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  test('[2-03] a client’s image is refused, by its name, and nothing is made', async () => {
    const refusal = {
      status: 400,
      body: { error: { message: expect.stringMatching(/^image: the provider "local" has no images; leave image out/) } },
    }
    expect(await box.create('own', { image: 'node:20' })).toMatchObject(refusal)
    expect(await box.exec('own', 'true', { image: 'node:20' })).toMatchObject(refusal)
    expect((await box.get('own')).status).toBe(404)
  })

  test('[2-03] the operator’s is not used there', async () => {
    expect(await box.output('ordinary', 'echo here')).toBe('here\n')
  })
})
