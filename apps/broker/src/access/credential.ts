import { createHash } from 'node:crypto'

/** By which header it came, and by which it is passed on to a thread's own server. */
export type CredentialHeader = 'authorization' | 'x-api-key'

/**
 * The caller's own credential, kept for the length of its request. The value is private to the object, so that no log, audit
 * row or error that takes up a principal shows it.
 */
export class Credential {
  readonly #value: string
  readonly #header: CredentialHeader

  constructor(value: string, header: CredentialHeader) {
    this.#value = value
    this.#header = header
  }

  /** What tells two credentials apart without showing either. */
  get hash(): string {
    return createHash('sha256').update(`${this.#header}:${this.#value}`).digest('base64url')
  }

  /** The request header that carries it, as it came. */
  header(): Record<string, string> {
    return { [this.#header]: this.#header === 'authorization' ? `Bearer ${this.#value}` : this.#value }
  }

  /** The credential itself, for who checks it. */
  reveal(): string {
    return this.#value
  }
}
