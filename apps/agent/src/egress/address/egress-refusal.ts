import type { EgressCode } from '@boxoffice/protocol'
import type { EgressDenial } from '../egress-types.ts'

/** Thrown where a connection or request is not served; a client gets the denial in the shape of its protocol. */
export class EgressRefusal extends Error {
  readonly denial: EgressDenial

  constructor(code: EgressCode, host: string, hint: string, rule?: string) {
    super(`${host}: ${hint}`)
    this.denial = { code, host, ...(rule === undefined ? {} : { rule }), hint }
  }
}
