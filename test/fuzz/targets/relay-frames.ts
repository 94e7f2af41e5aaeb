import assert from 'node:assert/strict'
import type { Writable } from 'node:stream'
import * as ws from 'ws'
import { ReadBuffer } from '../../../apps/broker/src/relay/http1/read-buffers.ts'
import { clientFrame, FrameCutter, OPCODE } from '../../../apps/broker/src/relay/ws/frames.ts'
import { mutated } from '../mutate.ts'
import { Random } from '../random.ts'
import type { FuzzTarget } from '../target.ts'

/** The parser of the library; its types do not name it. */
const { Receiver } = ws as unknown as { Receiver: new (options: object) => Writable }

const MAX_FRAME_BYTES = 32 * 1024 * 1024
const WORDS = [
  ...[Buffer.of(0x81, 0), Buffer.of(0x89, 0), Buffer.of(0x88, 2, 3, 0xe8), Buffer.of(0x82, 126, 0, 5), Buffer.of(0x82, 127)],
  ...[Buffer.of(0x80, 0), Buffer.of(0x01, 1, 0x61), Buffer.of(0xc1, 0), Buffer.of(0x81, 0x80), Buffer.alloc(8, 0xff), Buffer.alloc(300)],
]

/** As a server sends it; with `wide` its length takes more room than it needs. */
const serverFrame = (opcode: number, payload: Buffer, fin: boolean, wide: boolean): Buffer => {
  const size = payload.length < 126 && !wide ? 2 : 4
  const head = Buffer.alloc(size)
  head[0] = (fin ? 0x80 : 0) | opcode
  head[1] = size === 2 ? payload.length : 126
  if (size === 4) head.writeUInt16BE(payload.length, 2)
  return Buffer.concat([head, payload])
}

const stream = (random: Random): Buffer => {
  const frames: Buffer[] = []
  for (let left = 1 + random.below(5); left > 0; left--) {
    const isControl = random.once(3)
    const opcode = isControl ? random.of([OPCODE.ping, OPCODE.pong, OPCODE.close]) : random.of([0, OPCODE.text, OPCODE.binary])
    const length = random.of([0, 1, 5, 125, ...(isControl ? [] : [126, 300, 5000])])
    frames.push(serverFrame(opcode, Buffer.alloc(length, 0x61), isControl || !random.once(3), !isControl && random.once(8)))
  }
  return Buffer.concat(frames)
}

/** What came out, in its order and as bytes: control frames have one spelling only. */
const cut = (chunks: readonly Buffer[]): { out: Buffer; frames: number; refused: boolean } => {
  const out: Buffer[] = []
  const releases: (() => void)[] = []
  let frames = 0
  const cutter = new FrameCutter({
    data(pieces) {
      for (const { bytes, release } of pieces) {
        out.push(Buffer.from(bytes))
        if (release !== undefined) releases.push(release)
      }
    },
    control(opcode, payload) {
      frames++
      out.push(serverFrame(opcode, payload, true, false))
    },
  })
  let refused = false
  try {
    for (const chunk of chunks) {
      const lent = Buffer.from(chunk)
      const buffer = ReadBuffer.small()
      let held = false
      buffer.hold = () => {
        held = true
      }
      cutter.push(lent, buffer)
      if (!held) lent.fill(0xaa)
    }
  } catch {
    refused = true
  }
  for (const release of releases) release()
  return { out: Buffer.concat(out), frames, refused }
}

/** Whether the library that clients have finds nothing wrong with it, as far as it goes. */
const isTakenByWs = (input: Buffer): Promise<boolean> =>
  new Promise((resolve) => {
    const receiver = new Receiver({ isServer: false, maxPayload: MAX_FRAME_BYTES, allowSynchronousEvents: true })
    // Behind a close frame it reads no further.
    receiver.on('error', () => resolve(false)).on('conclude', () => resolve(false))
    receiver.write(input, (error) => resolve(error == null))
  })

/** What an agent sends on a socket: nothing is lost, added or turned round; split anywhere it is the same; what a client takes passes. */
export default {
  generate: (random) => mutated(random, stream(random), WORDS),
  async check(input) {
    const whole = cut([input])
    assert(input.subarray(0, whole.out.length).equals(whole.out), 'what came out is not what came')
    const pieces = cut(Random.of(input).cut(input))
    // A frame that has not ended when something is refused may have come out by then, or not.
    if (whole.refused) assert.equal(pieces.refused, true)
    else assert.deepEqual(pieces, whole)
    if (await isTakenByWs(input)) assert.equal(whole.refused, false)

    const opcode = Random.of(input).of([OPCODE.text, OPCODE.binary, OPCODE.ping])
    const payload = opcode === OPCODE.ping ? input.subarray(0, 125) : input
    let got: Buffer | undefined
    const receiver = new Receiver({ isServer: true, skipUTF8Validation: true, allowSynchronousEvents: true })
    receiver.on(opcode === OPCODE.ping ? 'ping' : 'message', (data: Buffer) => {
      got = Buffer.from(data)
    })
    receiver.on('error', (error) => assert.fail(error))
    receiver.write(clientFrame(opcode, payload))
    assert.deepEqual(got, Buffer.from(payload))
    return !whole.refused
  },
} satisfies FuzzTarget
