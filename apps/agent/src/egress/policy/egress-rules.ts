import type { EgressPolicy } from '@boxoffice/protocol'
import { type Host, hostText } from '../address/parse-host.ts'
import type { EgressDenial, RequestGate } from '../egress-types.ts'
import { compileTargets, grantedPorts, grants, names, type Target } from './compile-target.ts'
import { type CompiledRule, compileRule, openGate, requestGate, ruleName, type Secrets, swappingGate } from './request-gate.ts'

/** A host and port that the agent itself allows, at whatever address, without the policy; `deny` wins all the same. */
export type EgressException = { host: string; port: number }

/** What is said about a connection to one host and port. */
export type EgressVerdict = EgressGrant | { kind: 'denied'; denial: EgressDenial }

export type EgressGrant = {
  /** `opened` where requests are read and decided one by one, `opaque` where bytes pass as they are. */
  kind: 'opaque' | 'opened'
  /** Bytes that are not TLS pass as well. */
  isPlainAllowed: boolean
  rule: string
  gate: RequestGate
  /** Addresses are not looked at. */
  anyAddress: boolean
  /** Equal verdicts of two policies have equal keys. */
  key: string
}

/** A policy that is ready to decide. */
export type EgressRules = {
  /** Addresses of private networks are allowed. */
  readonly privateAddresses: boolean
  /** `scheme` is http where the client sends requests without TLS. */
  decide(host: Host, port: number, scheme?: 'http' | 'tls'): EgressVerdict
}

export type PolicyOptions = {
  secrets: Secrets
  /** What the variable of a placeholder has in the sandbox. */
  sentinelOf: (env: string) => string
  exceptions?: readonly EgressException[]
  /** Mirrors of the host: at whatever address where the policy names them, or every name. */
  mirrors?: readonly EgressException[]
}

/** Compiles a policy. Throws INVALID_REQUEST for hosts that are none. */
export function compilePolicy(policy: EgressPolicy, { secrets, sentinelOf, exceptions = [], mirrors = [] }: PolicyOptions): EgressRules {
  const deny = compileTargets(policy.deny)
  const bypass = compileTargets(policy.tls.bypass)
  const allow = compileTargets(policy.allow)
  const mirrored = compileTargets(mirrors.map(exceptionTarget))
  const own = [...compileTargets(exceptions.map(exceptionTarget)), ...(allow.some(({ isAny }) => isAny) ? mirrored : [])]
  const rules = policy.rules.map((rule) => compileRule(rule, compileTargets([rule.host])))
  const placeholders = policy.placeholders.map(({ env, secret, hosts }) => ({
    ...{ sentinel: sentinelOf(env), secret, targets: compileTargets(hosts) },
  }))
  const everything = [...allow, ...rules.flatMap(({ targets }) => targets), ...own]

  return {
    privateAddresses: policy.private_addresses,
    decide(host, port, scheme = 'tls') {
      const text = hostText(host)
      const denied = deny.find((target) => names(target, host, port))
      if (denied !== undefined) return refuse('denied', text, 'the policy denies this host', denied.text)
      const ruled = rules.filter(({ targets }) => targets.some((target) => grants(target, host, port)))
      const granting = ruled.flatMap(({ targets }) => targets).concat(allow, own)
      const granted = granting.filter((target) => grants(target, host, port))
      const [first] = granted
      if (first === undefined)
        return notGranted(
          text,
          port,
          everything.filter(({ coversHost }) => coversHost(host)),
        )
      if (scheme === 'http' && port === 443)
        return refuse('port_refused', text, 'port 443 is for https; this request would be readable', first.text)

      const mayOpen = policy.tls.terminate !== 'none' && !bypass.some((target) => names(target, host, port))
      const isPlainAllowed = granted.some((target) => target.port !== undefined && target.port !== 443)
      const anyAddress = [...own, ...mirrored].some((target) => grants(target, host, port))
      // Without TLS everybody on the way could read them.
      const held = scheme === 'http' ? [] : placeholders.filter(({ targets }) => targets.some((target) => grants(target, host, port)))
      const gate = swappingGate(ruled.length > 0 ? requestGate(text, ruled, secrets) : openGate, held, secrets)
      const rule = ruled[0] === undefined ? first.text : ruleName(ruled[0].rule)
      const isOpened = mayOpen && (policy.tls.terminate === 'all' || ruled.length > 0 || held.length > 0)
      const key = JSON.stringify([isOpened, isPlainAllowed, anyAddress, ruled.map((one) => one.rule), held])
      const grant = { isPlainAllowed, rule, gate, anyAddress, key }
      if (isOpened || scheme === 'http') return { kind: 'opened', ...grant }
      // Nobody would hold an unopened connection to the methods and paths of its rules.
      if (ruled.length > 0 && ruled.every(isNarrow))
        return refuse('not_allowed', text, 'its rules need its TLS opened, and tls.terminate or tls.bypass says not to', rule)
      return { kind: 'opaque', ...grant }
    },
  }
}

const refuse = (code: EgressDenial['code'], host: string, hint: string, rule?: string): EgressVerdict => ({
  kind: 'denied',
  denial: { code, host, ...(rule === undefined ? {} : { rule }), hint },
})

const isNarrow = ({ rule }: CompiledRule): boolean => rule.methods !== undefined || rule.paths !== undefined

const exceptionTarget = ({ host, port }: EgressException): string =>
  `${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`

function notGranted(host: string, port: number, others: readonly Target[]): EgressVerdict {
  const [first] = others
  if (first === undefined) return refuse('not_allowed', host, 'no allow or rule of the policy names this host')
  const ports = [...new Set(others.flatMap(grantedPorts))].sort((a, b) => a - b)
  return refuse('port_refused', host, `port ${port} is not allowed, only ${ports.join(', ')}`, first.text)
}
