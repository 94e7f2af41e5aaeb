import { type BoxofficeError, type Capability, fromUnknown, type SessionTokenClaims } from '@boxoffice/protocol'
import type { WebSocket } from 'ws'
import type { Authenticator } from '../../auth/auth.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { SocketSession, type SocketTraffic } from './socket-session.ts'

export type WholeSocketOptions = {
  ws: WebSocket
  sandbox: Sandbox
  /** Of the token with which it was opened. */
  claims: SessionTokenClaims
  requestId: string
  auth: Authenticator
  /** Unix seconds by the broker's clock. */
  now: () => number
}

/** A socket whose client is known when it opens, and which is for one thing only: whatever ends the session closes it at once. */
export abstract class WholeSocket implements SocketTraffic {
  readonly session: SocketSession
  readonly #options: WholeSocketOptions

  constructor(options: WholeSocketOptions) {
    this.#options = options
    const { ws, auth, now } = options
    this.session = new SocketSession({ ws, auth, now, traffic: this })
  }

  abstract message(data: Buffer, isBinary: boolean): void | Promise<void>
  abstract checkProgress(): void
  abstract tell(error: BoxofficeError): number
  abstract dispose(lost: boolean): void

  get backlog(): number {
    return this.#options.ws.bufferedAmount
  }

  flush(): void {}

  thrown(thrown: unknown): void {
    this.session.fail(fromUnknown(thrown))
  }

  ending(error: BoxofficeError): void {
    this.session.fail(error)
  }

  lost(error: BoxofficeError): void {
    this.session.fail(error)
  }

  /** For the end of the constructor: a sandbox that is gone already ends the socket. */
  protected admit(needs: Capability): void {
    const { claims, sandbox } = this.#options
    this.session.require(needs)
    this.session.admit(claims, sandbox)
  }

  /** Takes another token; `confirm` tells the client so, before a token that grants too little ends the socket. */
  protected async renew(token: string, confirm: (claims: SessionTokenClaims) => void): Promise<void> {
    const { auth, sandbox } = this.#options
    const claims = await auth.authenticate(token, sandbox.id, this.session.claims)
    this.session.admit(claims, sandbox)
    confirm(claims)
    this.session.recheck()
  }
}
