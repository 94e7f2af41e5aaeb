import assert from 'node:assert/strict'
import type { WebSocket } from 'ws'
import { Messages } from '../../../apps/agent/src/ws/session/messages.ts'
import type { FuzzTarget } from '../target.ts'

/**
 * A client's messages, one a byte: worked on at once, later, or with a failure. They are worked on in their order and never two at
 * once; the socket is read when none is left; one that fails, and only that, is told.
 */
export default {
  generate: (random) => random.bytes(random.below(24)),
  async check(input) {
    let reading = true
    const ws = { pause: () => (reading = false), resume: () => (reading = true) }
    const seen: number[] = []
    let failures = 0
    let atWork = 0
    const messages = new Messages(ws as unknown as WebSocket, () => failures++)
    const later = [...input].map(() => Promise.withResolvers<void>())
    const all = Promise.withResolvers<void>()
    if (input.length === 0) all.resolve()
    for (const [number, kind] of input.entries()) {
      messages.add(() => {
        assert.equal(atWork++, 0)
        const done = (): void => {
          atWork--
          seen.push(number)
          if (seen.length === input.length) all.resolve()
          if (kind % 5 === 0) throw new Error('fails')
        }
        if (kind % 2 === 0) return done()
        return (later[number] as PromiseWithResolvers<void>).promise.then(done)
      })
      assert.equal(messages.paused, atWork > 0)
    }
    for (const { resolve } of later) resolve()
    await all.promise
    // What follows the last one's end.
    for (let turn = 0; turn < 4; turn++) await null
    assert.deepEqual(seen, [...input.keys()])
    assert.equal(failures, input.filter((kind) => kind % 5 === 0).length)
    assert.deepEqual([reading, messages.paused], [true, false])
    return failures === 0
  },
} satisfies FuzzTarget
