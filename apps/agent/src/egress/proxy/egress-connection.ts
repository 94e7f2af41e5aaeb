import type { Duplex } from 'node:stream'
import { EgressRefusal } from '../address/egress-refusal.ts'
import { hostText, parseHost } from '../address/parse-host.ts'
import type { EgressDecision, EgressDenial } from '../egress-types.ts'
import type { EgressGrant, EgressRules } from '../policy/egress-rules.ts'
import { type Opening, peekOpening } from './client-hello.ts'
import { type ClientRequest, protocolOf, refusalFor } from './client-protocol.ts'
import type { EgressContext } from './egress-context.ts'
import { breakOff, endWith } from './end-with.ts'
import { httpHeadBytes } from './http-head.ts'
import { forwardedHead } from './http-target.ts'
import { type OriginRoute, routeTo } from './origin-route.ts'
import { tieTogether } from './pipe-both.ts'
import { HeadFault, readHead } from './read-head.ts'

/** RFC 8446 §6: fatal, unrecognized_name. */
const TLS_ALERT = Buffer.of(21, 3, 1, 0, 2, 2, 112)

/** One connection of a program in the sandbox, from its first byte to its end. */
export class EgressConnection {
  readonly #client: Duplex
  readonly #context: EgressContext
  readonly #origins = new Set<Duplex>()
  #granted: { request: ClientRequest; grant: EgressGrant; route?: OriginRoute } | undefined
  #server: { destroy(): void } | undefined
  #isTied = false

  constructor(client: Duplex, context: EgressContext) {
    this.#client = client
    this.#context = context
    client.on('error', () => {})
    client.once('close', () => {
      this.#server?.destroy()
      if (!this.#isTied) this.#breakOrigins()
    })
  }

  /** Serves the connection, or only tells its client why not. Never rejects. */
  async serve(refusal?: (host: string) => EgressRefusal): Promise<void> {
    const { headMs } = this.#context.limits
    let request: ClientRequest | undefined
    let refuse: ((refusal: EgressRefusal) => void) | undefined
    try {
      const protocol = await protocolOf(this.#client, headMs)
      if (protocol === undefined) return void this.#client.destroy()
      refuse = protocol.refuse
      request = await protocol.read(headMs)
      if (refusal !== undefined) throw refusal(hostText(request.host))
      await this.#carry(request)
    } catch (error) {
      if (this.#client.destroyed) return
      const told = refusalFor(error)
      if (told === undefined || refuse === undefined) return breakOff(this.#client)
      this.#decide(request, told.denial)
      if (TOLD_IN_TLS.has(told.denial.code)) endWith(this.#client, TLS_ALERT)
      else refuse(told)
    }
  }

  /** Cuts the connection where other rules say anything else about it. */
  recheck(rules: EgressRules): void {
    if (this.#granted === undefined || this.#client.destroyed) return
    const { request, grant, route } = this.#granted
    const verdict = rules.decide(request.host, request.port, schemeOf(request))
    const isSame = verdict.kind !== 'denied' && verdict.key === grant.key && (rules.privateAddresses || route?.isPrivate !== true)
    if (isSame) return
    const changed = { code: 'not_allowed', host: hostText(request.host), hint: 'the policy has changed; connect again' } as const
    this.#decide(request, verdict.kind === 'denied' ? verdict.denial : changed)
    this.cut()
  }

  /** Breaks both sides off. */
  cut(): void {
    breakOff(this.#client)
    this.#breakOrigins()
  }

  async #carry(request: ClientRequest): Promise<void> {
    const rules = this.#context.rules()
    const grant = rules.decide(request.host, request.port, schemeOf(request))
    if (grant.kind === 'denied') throw refusalOf(grant.denial)
    this.#granted = { request, grant }
    const route = await routeTo(request, grant, rules, this.#context)
    this.#granted.route = route
    // The policy may have changed while the name was resolved.
    if (this.#context.rules() !== rules) this.recheck(this.#context.rules())
    if (this.#client.destroyed) return
    if (request.head !== undefined) {
      this.#client.unshift(httpHeadBytes(forwardedHead(request.head)))
      this.#forward(request, grant, () => this.#dial(route))
    } else if (grant.kind === 'opened') await this.#open(request, grant, route)
    else await this.#connect(request, grant, route)
  }

  /** Of a host whose requests are read. */
  async #open(request: ClientRequest, grant: EgressGrant, route: OriginRoute): Promise<void> {
    request.accept()
    const opening = await this.#peek(request)
    const dial = (): Promise<Duplex> => this.#dial(route)
    if (!opening.isTls) return this.#withoutTls(request, grant, dial)
    this.#decide(request, undefined, grant)
    const { openTls, onDecision } = this.#context
    this.#server = openTls({ ...this.#endpoint(request), gate: grant.gate, dial, onDecision })
  }

  /** Of a host whose bytes pass as they are. */
  async #connect(request: ClientRequest, grant: EgressGrant, route: OriginRoute): Promise<void> {
    const client = this.#client
    const origin = await this.#dial(route)
    if (client.destroyed) return
    request.accept()
    if (grant.isPlainAllowed) {
      // Here the server may speak first.
      this.#isTied = true
      tieTogether(client, origin)
      origin.pipe(client)
      this.#decide(request, undefined, grant)
      await this.#peek(request, Number.POSITIVE_INFINITY)
      client.pipe(origin)
      return
    }
    const opening = await this.#peek(request)
    if (!opening.isTls) return this.#withoutTls(request, grant, async () => origin)
    this.#decide(request, undefined, grant)
    this.#isTied = true
    tieTogether(client, origin)
    origin.pipe(client)
    client.pipe(origin)
  }

  /** Plain HTTP through a tunnel is held to the same as absolute-form HTTP. */
  #withoutTls(request: ClientRequest, { isPlainAllowed }: EgressGrant, dial: () => Promise<Duplex>): void {
    const { host, port } = request
    const grant = this.#context.rules().decide(host, port, 'http')
    if (grant.kind === 'denied' || !(isPlainAllowed || port === 80))
      throw new EgressRefusal('not_tls', hostText(host), 'only TLS is allowed here; name the host with its port to allow other bytes')
    this.#forward(request, grant, dial)
  }

  #forward(request: ClientRequest, { gate }: EgressGrant, dial: () => Promise<Duplex>): void {
    const { forwardHttp, onDecision } = this.#context
    this.#server = forwardHttp({ ...this.#endpoint(request), scheme: 'http', gate, dial, onDecision })
  }

  /** How the tunnel begins. Throws where TLS shows another name than the one that was decided about. */
  async #peek({ host }: ClientRequest, limitMs = this.#context.limits.headMs): Promise<Opening> {
    const opening = await readHead(this.#client, peekOpening, { limitMs }).catch((error: unknown) => {
      if (!(error instanceof HeadFault) || this.#client.destroyed) throw error
      if (error.why === 'ended') return { isTls: false } as const
      throw new EgressRefusal('not_tls', hostText(host), 'the beginning of TLS did not come, or not within 16 KiB')
    })
    if (!opening.isTls) return opening
    const shown = opening.sni === undefined ? undefined : (parseHost(opening.sni)?.name ?? '')
    if (shown === host.name) return opening
    const hint = `TLS shows ${opening.sni === undefined ? 'no name' : 'another name'}, it must show the host of the connection`
    throw new EgressRefusal('sni_mismatch', hostText(host), hint)
  }

  async #dial(route: OriginRoute): Promise<Duplex> {
    const origin = await route.dial()
    origin.on('error', () => {})
    this.#origins.add(origin)
    origin.once('close', () => this.#origins.delete(origin))
    if (this.#client.destroyed) breakOff(origin)
    return origin
  }

  #breakOrigins(): void {
    for (const origin of this.#origins) breakOff(origin)
  }

  #endpoint({ host, port }: ClientRequest): { connection: Duplex; host: string; port: number } {
    return { connection: this.#client, host: hostText(host), port }
  }

  #decide(request: ClientRequest | undefined, denial: EgressDenial | undefined, grant?: EgressGrant): void {
    const decision: EgressDecision = {
      ...{ at: Date.now(), allowed: denial === undefined, host: request === undefined ? '' : hostText(request.host) },
      ...{ port: request?.port ?? 0, protocol: request?.protocol ?? 'http', rule: grant?.rule },
      ...(request?.head && { method: request.head.method, path: request.path }),
    }
    const inTls = denial !== undefined && TOLD_IN_TLS.has(denial.code)
    this.#context.onDecision({ ...decision, ...denial, ...(inTls && { protocol: 'tls' as const }) })
  }
}

/** Found after the client was told that it is connected. */
const TOLD_IN_TLS: ReadonlySet<EgressDenial['code']> = new Set(['sni_mismatch', 'not_tls'])

const schemeOf = ({ head }: ClientRequest): 'http' | 'tls' => (head === undefined ? 'tls' : 'http')

const refusalOf = ({ code, host, hint, rule }: EgressDenial): EgressRefusal => new EgressRefusal(code, host, hint, rule)
