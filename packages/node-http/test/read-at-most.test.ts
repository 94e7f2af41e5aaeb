import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { readAtMost } from '../src/index.ts'

const tooLong = () => new Error('too long')
const body = () => Readable.from([Buffer.from('twelve'), Buffer.from(' bytes')])

test('[C-80] a body of as many bytes as it may have is read whole', async () => {
  expect((await readAtMost(body(), { limit: 12, tooLong })).toString()).toBe('twelve bytes')
})

test('[C-80] a longer one is refused at the first byte too many, and its sender is not read any more', async () => {
  const endless = Readable.from(
    (function* () {
      for (;;) yield Buffer.from('twelve bytes')
    })(),
  )
  await expect(readAtMost(endless, { limit: 23, tooLong })).rejects.toThrow('too long')
  expect(endless.destroyed).toBe(true)
})
