import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { tcp } from '../support/listening.ts'
import { closed, proxies, readUntil, sendConnect } from './support/proxy.ts'

const start = proxies()

const echo = () => tcp((socket) => void socket.on('error', () => {}).pipe(socket))

const isAlive = async (socket: Socket): Promise<boolean> => {
  socket.write('ping')
  return readUntil(socket, 4).then(
    (bytes) => bytes.toString() === 'ping',
    () => false,
  )
}

describe('a policy that changes while connections are open', () => {
  test('[sandbox-sdk#844] cuts those that it does not allow; the others go on', async () => {
    await using origin = await echo()
    const { connect, setPolicy, decisions } = await start({ allow: ['a.example:9000', 'b.example:9000'] }, { ports: { 9000: origin.port } })
    const [a, b] = [await connect(), await connect()]
    await sendConnect(a, 'a.example:9000')
    await sendConnect(b, 'b.example:9000')
    expect([await isAlive(a), await isAlive(b)]).toEqual([true, true])
    setPolicy({ allow: ['*:9000'], deny: ['a.example'] })
    expect([await isAlive(a), await isAlive(b)]).toEqual([false, true])
    expect(decisions.at(-1)).toMatchObject({ allowed: false, code: 'denied', host: 'a.example', rule: 'a.example' })
    expect(await sendConnect(await connect(), 'a.example:9000')).toMatch(/ 403 /)
  })

  test('cuts those whose rules changed', async () => {
    await using origin = await echo()
    const rules = [
      { host: 'a.example', paths: ['/x'] },
      { host: 'b.example', paths: ['/x'] },
    ]
    const { connect, setPolicy, decisions } = await start({ rules }, { ports: { 443: origin.port } })
    const [a, b] = [await connect(), await connect()]
    await sendConnect(a, 'a.example:443')
    await sendConnect(b, 'b.example:443')
    setPolicy({
      rules: [
        { host: 'a.example', paths: ['/x'] },
        { host: 'b.example', paths: ['/y'] },
      ],
    })
    await closed(b)
    expect(a.closed).toBe(false)
    expect(decisions).toMatchObject([{ allowed: false, host: 'b.example', code: 'not_allowed', hint: expect.stringContaining('changed') }])
  })

  test('cuts those to private addresses that it no longer allows', async () => {
    await using origin = await echo()
    const resolve = async (name: string) => (name === 'private.example' ? ['10.0.0.5'] : ['93.184.215.14'])
    const policy = { allow: ['*:9000'], private_addresses: true }
    const { connect, setPolicy } = await start(policy, { resolve, ports: { 9000: origin.port } })
    const [inside, outside] = [await connect(), await connect()]
    await sendConnect(inside, 'private.example:9000')
    await sendConnect(outside, 'public.example:9000')
    expect([await isAlive(inside), await isAlive(outside)]).toEqual([true, true])
    setPolicy({ ...policy, private_addresses: false })
    expect([await isAlive(inside), await isAlive(outside)]).toEqual([false, true])
  })

  test('counts for a connection whose name is being resolved', async () => {
    const asked = Promise.withResolvers<void>()
    const answer = Promise.withResolvers<string[]>()
    const resolve = () => {
      asked.resolve()
      return answer.promise
    }
    const { connect, setPolicy, dialled } = await start({ allow: ['*:9000'], private_addresses: true }, { resolve })
    const socket = await connect()
    socket.write('CONNECT private.example:9000 HTTP/1.1\r\n\r\n')
    await asked.promise
    setPolicy({ allow: ['*:9000'] })
    answer.resolve(['10.0.0.5'])
    await expect(readUntil(socket, '\r\n\r\n')).rejects.toThrow(/ended/)
    expect(dialled).toEqual([])
  })

  test('changes nothing where it cannot be compiled', async () => {
    await using origin = await echo()
    const { connect, setPolicy } = await start({ allow: ['a.example:9000'] }, { ports: { 9000: origin.port } })
    const socket = await connect()
    await sendConnect(socket, 'a.example:9000')
    expect(() => setPolicy({ allow: ['@missing'] })).toThrow(/@missing is not a host/)
    expect(await isAlive(socket)).toBe(true)
    expect(await sendConnect(await connect(), 'a.example:9000')).toMatch(/ 200 /)
  })
})
