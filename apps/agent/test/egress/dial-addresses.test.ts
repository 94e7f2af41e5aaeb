import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { type Dial, dialAddresses, dialTcp } from '../../src/egress/address/dial-addresses.ts'
import { type IpAddress, parseAddress } from '../../src/egress/address/ip-address.ts'
import { freePort, tcp } from '../support/listening.ts'

const addresses = (...texts: string[]): IpAddress[] => texts.map((text) => parseAddress(text) ?? expect.fail(text))

/** Connects as `dialTcp` does, but never gets an answer from the addresses that are named. */
const silentAt =
  (...silent: string[]): Dial =>
  (to, signal) => {
    if (!silent.includes(to.address)) return dialTcp(to, signal)
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('given up'))))
  }

describe('addresses are dialled in order', () => {
  test('and the next one where one refuses, or does not answer', async () => {
    await using server = await tcp((socket) => void socket.end('from the last one'))
    for (const dial of [dialTcp, silentAt('127.0.0.2')]) {
      // Nobody listens at the first two: the server has 127.0.0.1 alone.
      const connection = await dialAddresses(addresses('127.0.0.2', '127.0.0.3', '127.0.0.1'), server.port, dial, 60_000)
      expect(String((await once(connection, 'data'))[0])).toBe('from the last one')
      connection.destroy()
    }
  })

  test('until none is left, or the time is over', async () => {
    await expect(dialAddresses(addresses('127.0.0.1', '127.0.0.2'), await freePort(), dialTcp, 60_000)).rejects.toMatchObject({
      code: 'ECONNREFUSED',
    })
    await expect(dialAddresses(addresses('8.8.8.8'), 1, silentAt('8.8.8.8'), 100)).rejects.toThrow('no answer in time')
    const deaf: Dial = () => new Promise(() => {})
    await expect(dialAddresses(addresses('8.8.8.8', '8.8.4.4'), 1, deaf, 100)).rejects.toThrow('no answer in time')
  })
})
