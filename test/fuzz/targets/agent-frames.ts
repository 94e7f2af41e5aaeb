import assert from 'node:assert/strict'
import { parseExecStart, parseFrame, parseShellStart, stdinBytes } from '../../../apps/agent/src/ws/frames.ts'
import { authTokenOf, mayBeAuth, readEarlyFrame } from '../../../apps/broker/src/relay/ws/client-frames.ts'
import { BoxofficeError } from '../../../packages/protocol/src/index.ts'
import { mutated } from '../mutate.ts'
import type { FuzzTarget } from '../target.ts'

const MESSAGES = [
  '{"type":"auth","token":"a.b.c"}',
  '{"type":"start","argv":["/bin/true"],"env":{"A":"b"},"stdin":"open"}',
  '{"type":"start","command":"ls","attach":"exec_1","stdout_offset":0,"mode":"takeover","ack":true}',
  '{"type":"start","shell_id":"s","cols":80,"rows":24,"term":"xterm"}',
  '{"type":"stdin","data":"aGVsbG8=","encoding":"base64"}',
  '{"type":"stdin","data":"hello","eof":true}',
  '{"type":"resize","cols":80,"rows":1e3,"claim":true}',
  '{"type":"signal","signal":"TERM"}',
  '{"type":"ping","id":7,"ts":[1],"stdout_offset":3}',
  '{"type":"close"}',
]
const WORDS = [
  ...['"auth"', '"type":"auth",', '"type":"ping",', '"token":"t",', '\\u0061uth', '\\u0074ype', '\\"', '"__proto__":{},', '"token":1,'],
  ...['null', '1e999', '-0', '[]', '{}', '😀', '\ufeff', '\\ud800', '[[[[[[', '"data":', '"encoding":"base64",', '='],
]

const given = <T>(parse: () => T): T | undefined => {
  try {
    return parse()
  } catch (thrown) {
    assert(thrown instanceof BoxofficeError, thrown as Error)
    return undefined
  }
}

/** What was read of a `start` is read the same when it is written again. */
const assertStable = (parse: (frame: Record<string, unknown>) => object, frame: Record<string, unknown>): void => {
  const start = given(() => parse(frame))
  if (start === undefined) return
  const written = JSON.stringify(start)
  assert.equal(JSON.stringify(parse(JSON.parse(written) as Record<string, unknown>)), written)
}

/**
 * A client's text messages, read by agent and relay: a refusal is in our own words, what was read means the same when it is written
 * again, and no message passes the relay unread in which the agent finds a credential.
 */
export default {
  generate: (random) => mutated(random, Buffer.from(random.of(MESSAGES)), WORDS),
  check(input) {
    // A socket closes for a text message that is not UTF-8.
    const text = input.toString()
    const bytes = Buffer.from(text)
    const frame = given(() => parseFrame(text))
    const early = given(() => readEarlyFrame(bytes))
    const token = mayBeAuth(bytes) ? given(() => authTokenOf(bytes)) : undefined
    if (frame?.type === 'auth') assert.equal(token, frame.token)
    if (frame !== undefined) assert.equal(early?.type === 'auth', frame.type === 'auth')
    if (early?.type === 'auth') assert.equal(token, early.token)
    if (frame === undefined || frame.type === 'unknown') return false
    assert.equal(JSON.stringify(parseFrame(JSON.stringify(frame))), JSON.stringify(frame))
    if (frame.type === 'start') {
      assertStable(parseExecStart, frame)
      assertStable(parseShellStart, frame)
    }
    if (frame.type === 'stdin') {
      const data = given(() => stdinBytes(frame))
      if (data !== undefined) assert(data.length <= bytes.length)
    }
    return true
  },
} satisfies FuzzTarget
