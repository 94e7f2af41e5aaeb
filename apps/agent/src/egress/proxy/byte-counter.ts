import type { Duplex } from 'node:stream'

type Counted = Duplex & { readonly bytesRead: number; readonly bytesWritten: number }

/** Adds up the bytes of connections without being in their way: sockets count by themselves. */
export class ByteCounter {
  readonly #open = new Set<Counted>()
  #sent = 0
  #received = 0

  /** A stream that does not count its bytes is left out. */
  add(connection: Duplex): void {
    if (!isCounted(connection)) return
    this.#open.add(connection)
    connection.once('close', () => {
      this.#open.delete(connection)
      this.#sent += connection.bytesWritten
      this.#received += connection.bytesRead
    })
  }

  get total(): { sent: number; received: number } {
    let sent = this.#sent
    let received = this.#received
    for (const { bytesRead, bytesWritten } of this.#open) {
      sent += bytesWritten
      received += bytesRead
    }
    return { sent, received }
  }
}

const isCounted = (stream: Duplex): stream is Counted => 'bytesRead' in stream && 'bytesWritten' in stream
