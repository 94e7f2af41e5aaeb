import { EventEmitter, once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { OpenSockets } from '../src/index.ts'

/** A socket whose client answers a goodbye, or does not. */
class Socket extends EventEmitter {
  readonly heard: string[] = []
  readonly #answers: boolean

  constructor(answers = true) {
    super()
    this.#answers = answers
  }

  shutdown(): void {
    this.heard.push('shutdown')
    if (this.#answers) setImmediate(() => this.emit('close'))
    this.emit('told')
  }

  terminate(): void {
    this.heard.push('terminate')
    setImmediate(() => this.emit('close'))
  }
}

const opened = (sockets: OpenSockets<Socket>, socket = new Socket()): Socket => {
  sockets.add(socket, socket)
  return socket
}

describe('[2.14] a server that closes its sockets', () => {
  test('says goodbye to each and waits until all are gone', async () => {
    const sockets = new OpenSockets<Socket>(60_000)
    const [first, second] = [opened(sockets), opened(sockets)]
    await sockets.close()
    expect([first.heard, second.heard, [...sockets]]).toEqual([['shutdown'], ['shutdown'], []])
  })

  test('ends at once where none is open any more', async () => {
    const sockets = new OpenSockets<Socket>(60_000)
    const socket = opened(sockets)
    socket.emit('close')
    await sockets.close()
    expect(socket.heard).toEqual([])
  })

  test('cuts a client that does not answer', async () => {
    const sockets = new OpenSockets<Socket>(10)
    const socket = opened(sockets, new Socket(false))
    await sockets.close()
    expect(socket.heard).toEqual(['shutdown', 'terminate'])
  })

  test('ends what opens meanwhile, and waits for it too', async () => {
    const sockets = new OpenSockets<Socket>(60_000)
    const first = opened(sockets, new Socket(false))
    const told = once(first, 'told')
    const closed = sockets.close()
    await told
    const late = opened(sockets, new Socket(false))
    expect(late.heard).toEqual(['shutdown'])
    first.emit('close')
    expect([...sockets]).toEqual([late])
    late.emit('close')
    await closed
  })
})
