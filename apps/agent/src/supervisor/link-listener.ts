import { once } from 'node:events'
import { existsSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:net'

/** The socket's directory is private to the agent on the host; the socket itself is 0666, because the sandbox has another uid. */
export const listenForSupervisor = async (path: string): Promise<Server> => {
  const server = createServer({ pauseOnConnect: true })
  listen(server, path)
  await once(server, 'listening')
  return server
}

const listen = (server: Server, path: string): void => {
  // An agent that was killed leaves its own.
  if (existsSync(path)) rmSync(path, { force: true })
  server.listen({ path, readableAll: true, writableAll: true })
}

const AGAIN_AFTER_MS = 500

/**
 * Where one supervisor dials. The socket costs a descriptor and is there only while a dial is expected. Opening and closing take
 * effect before they return; what has been accepted stays.
 */
export class LinkListener {
  readonly #server: Server
  readonly #path: string
  readonly #failed: (err: unknown) => void
  #wanted = true
  #again: NodeJS.Timeout | undefined

  constructor(server: Server, path: string, failed: (err: unknown) => void) {
    this.#server = server
    this.#path = path
    this.#failed = failed
    server.on('error', (err) => this.#retry(err))
  }

  /** What cannot be opened, for want of a descriptor, is told to `failed` and tried again. */
  open(): void {
    this.#wanted = true
    clearTimeout(this.#again)
    if (this.#server.listening) return
    try {
      listen(this.#server, this.#path)
    } catch (err) {
      this.#retry(err)
    }
  }

  close(): void {
    this.#wanted = false
    clearTimeout(this.#again)
    if (this.#server.listening) this.#server.close()
  }

  #retry(err: unknown): void {
    this.#failed(err)
    clearTimeout(this.#again)
    if (this.#wanted && !this.#server.listening) this.#again = setTimeout(() => this.open(), AGAIN_AFTER_MS).unref()
  }
}
