import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openLocal } from '../mounts/support.ts'
import { TestSandbox } from '../support/sandbox.ts'
import { linkFloodSuite } from './link-flood.ts'

describe('local, bubblewrap', () => linkFloodSuite(openLocal('bubblewrap')))

const dial = (sandbox: TestSandbox): Socket => connect(join(sandbox.directory, 'link.sock')).on('error', () => {})

test('a connection to the link that says no hello, or more than a hello has, is closed; 17 end the oldest', async () => {
  await using sandbox = await TestSandbox.start()
  const silent = dial(sandbox)
  await once(silent, 'close')

  const talkative = dial(sandbox)
  const header = Buffer.from([0, 0, 1, 0, 0x10])
  talkative.write(Buffer.concat([header, Buffer.alloc(8192, 'x')]))
  await once(talkative, 'close')

  const first = dial(sandbox)
  await once(first, 'connect')
  const others = Array.from({ length: 16 }, () => dial(sandbox))
  await once(first, 'close')
  for (const socket of others) socket.destroy()
  expect(sandbox.link.connected).toBe(true)
})
