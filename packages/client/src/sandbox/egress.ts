import { type EgressPolicy, type SessionNetwork, SessionEgress as Wire } from '@boxoffice/protocol'
import type { z } from 'zod'
import type { ControlPlane } from '../control/control-plane.ts'

/** A policy as it is written: what is left out is empty. */
export type EgressPolicyInput = z.input<typeof EgressPolicy>

/** Where the programs of a session may connect to. */
export type SessionEgress = {
  network: SessionNetwork
  /** Null: nowhere, and with `network: on` to every public address on ports 80 and 443. */
  policy: EgressPolicy | null
  /** Whose policy it is. */
  source: 'profile' | 'session'
  /** The policy of the profile can only be narrowed. */
  locked: boolean
}

type Options = { signal?: AbortSignal | undefined }

/** Where the programs of one session may connect to, by the broker's routes. */
export class Egress {
  readonly #controlPlane: ControlPlane
  readonly #path: string

  /** `path`: of the session's egress. */
  constructor(controlPlane: ControlPlane, path: string) {
    this.#controlPlane = controlPlane
    this.#path = path
  }

  get({ signal }: Options = {}): Promise<SessionEgress> {
    return this.#controlPlane.json(this.#path, { method: 'GET', signal }, Wire)
  }

  /** Replaces the policy. Returns when it holds; connections that it does not allow are cut. */
  set(policy: EgressPolicyInput, { signal }: Options = {}): Promise<SessionEgress> {
    return this.#controlPlane.json(this.#path, { method: 'PUT', json: policy, signal }, Wire)
  }

  /** Lets the policy of the profile hold again. */
  reset({ signal }: Options = {}): Promise<SessionEgress> {
    return this.#controlPlane.json(this.#path, { method: 'DELETE', signal }, Wire)
  }
}
