import { expect, test } from 'vitest'
import { Outbox } from '../src/stream/outbox.ts'

/** An outbox on a connection; `asked` counts what makes its owner ask where the process stands. */
const connected = () => {
  const asked: boolean[] = []
  const outbox: Outbox = new Outbox(() => asked.push(outbox.blocked))
  outbox.connect(() => {}, 100)
  return { outbox, asked }
}

test('flush asks, and resolves when the process has been given the last byte', async () => {
  const { outbox, asked } = connected()
  await outbox.flush()
  await outbox.write('abc')
  const order: string[] = []
  const flushed = outbox.flush().then(() => order.push('flushed'))
  expect(asked).toEqual([false, true])
  outbox.confirm(102)
  await Promise.resolve(order.push('102'))
  outbox.confirm(103)
  await flushed
  expect(order).toEqual(['102', 'flushed'])
  expect(outbox.blocked).toBe(false)
})

test('flush holds over a connection that was lost', async () => {
  const { outbox } = connected()
  await outbox.write('abc')
  const flushed = outbox.flush()
  outbox.disconnect()
  outbox.connect(() => {}, 103)
  await flushed
})

test('flush rejects when the process ends first, and not where it had it all', async () => {
  const { outbox } = connected()
  const other = connected().outbox
  await Promise.all([outbox.write('abc'), other.write('abc')])
  other.confirm(103)
  const flushed = outbox.flush()
  for (const one of [outbox, other]) one.close(new Error('ended'))
  await expect(flushed).rejects.toThrow('ended')
  await expect(outbox.flush()).rejects.toThrow('ended')
  await other.flush()
})

test('end waits until the end is sent, over a connection that was lost', async () => {
  const { outbox } = connected()
  outbox.disconnect()
  const sent: number[] = []
  const ended = outbox.end().then(() => sent.push(-1))
  await outbox.flush()
  expect(sent).toEqual([])
  outbox.connect((message) => sent.push(message.length), 100)
  await ended
  expect(sent).toEqual([1, -1])
})

test('end rejects when the process ends before the end is sent', async () => {
  const { outbox } = connected()
  outbox.disconnect()
  const ended = outbox.end()
  outbox.close(new Error('ended'))
  await expect(ended).rejects.toThrow('ended')
})
