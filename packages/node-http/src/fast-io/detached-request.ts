import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { TLSSocket } from 'node:tls'

/** A request whose body Node has stopped to read. Somebody else can take what is still to come from `socket`. */
export type DetachedRequest = {
  readonly socket: Socket
  /** Node has read nothing since. */
  readonly untouched: boolean
  /** Node reads on. */
  resume(): void
}

/** Whether there is a point in it: Node has delivered all that it has read, and does not decrypt. */
export const canDetach = (incoming: IncomingMessage): boolean => incoming.readableLength === 0 && !(incoming.socket instanceof TLSSocket)

/** Stops Node from reading a body. Resolves with undefined, and it reads on, where it was about to read once more. */
export const detachRequest = async (incoming: IncomingMessage): Promise<DetachedRequest | undefined> => {
  const { socket } = incoming
  incoming.pause()
  // A paused request reads ahead, unless somebody has asked it and waits. Who asks makes its socket read; so that comes last.
  incoming.read()
  socket.pause()
  const before = socket.bytesRead
  const detached: DetachedRequest = {
    socket,
    get untouched() {
      return socket.bytesRead === before && incoming.readableLength === 0
    },
    resume() {
      incoming.resume()
      socket.resume()
    },
  }
  await setImmediate()
  if (detached.untouched) return detached
  detached.resume()
  return undefined
}
