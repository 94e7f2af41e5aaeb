import type { EgressInjection, EgressRule } from '@boxoffice/protocol'
import type { EgressDenial, RequestGate, RequestVerdict } from '../egress-types.ts'
import { swapPlaceholders } from '../secrets/placeholder.ts'
import type { Target } from './compile-target.ts'
import { compilePathGlob } from './path-glob.ts'

/** The value of a secret, or undefined where there is none. Asked for each request, so that a new version counts from the next one on. */
export type Secrets = (name: string) => string | undefined

export type CompiledRule = {
  rule: EgressRule
  targets: readonly Target[]
  takesMethod: (method: string) => boolean
  takesPath: (path: string) => boolean
}

export function compileRule(rule: EgressRule, targets: readonly Target[]): CompiledRule {
  const globs = rule.paths?.map(compilePathGlob)
  return {
    rule,
    targets,
    takesMethod: (method) => rule.methods?.includes(method) ?? true,
    takesPath: (path) => globs?.some((matches) => matches(path)) ?? true,
  }
}

/** What stands for a secret in the environment, for the hosts of its targets. */
export type CompiledPlaceholder = { sentinel: string; secret: string; targets: readonly Target[] }

/** The gate, and in the headers of what it allows the secrets in the place of what stands for them. */
export function swappingGate(gate: RequestGate, placeholders: readonly CompiledPlaceholder[], secrets: Secrets): RequestGate {
  if (placeholders.length === 0) return gate
  const swapping = (request: Parameters<RequestGate>[0]): RequestVerdict => {
    const verdict = gate(request)
    if (!verdict.allowed) return verdict
    const resolved = placeholders.map(({ sentinel, secret }) => ({ sentinel, value: secrets(secret) }))
    return { ...verdict, swap: swapPlaceholders(resolved) }
  }
  return Object.assign(swapping, { ignoresPaths: gate.ignoresPaths ?? false })
}

/** The first rule that describes a request decides which headers it gets; without one the request is denied. */
export function requestGate(host: string, rules: readonly CompiledRule[], secrets: Secrets): RequestGate {
  const gate: RequestGate = ({ method, path: target }) => {
    const [path = ''] = target.split('?', 1)
    const onPath = rules.filter(({ takesPath }) => takesPath(path))
    const found = onPath.find(({ takesMethod }) => takesMethod(method))
    if (found !== undefined) return inject(host, found.rule, secrets)
    const { rule } = onPath[0] ?? rules[0] ?? {}
    return {
      allowed: false,
      denial: {
        ...{ code: onPath.length === 0 ? 'path_not_allowed' : 'method_not_allowed', host, rule: rule && ruleName(rule) },
        hint: onPath.length === 0 ? pathHint(rules) : `${method} is not allowed here, only ${methodsOf(onPath)}`,
      },
    }
  }
  return Object.assign(gate, { ignoresPaths: rules.every(({ rule }) => rule.paths === undefined) })
}

/** Of a host that is allowed without rules. */
export const openGate: RequestGate = Object.assign(() => ({ allowed: true as const, headers: [] }), { ignoresPaths: true })

export const ruleName = ({ description, host }: EgressRule): string => description ?? host

function inject(host: string, rule: EgressRule, secrets: Secrets): RequestVerdict {
  const headers: (readonly [string, string])[] = []
  for (const injection of rule.inject) {
    const value = headerValue(injection, secrets)
    if (value === undefined) return { allowed: false, denial: secretMissing(host, rule, injection.secret) }
    headers.push([injection.header, value])
  }
  return { allowed: true, headers }
}

function headerValue({ secret, template }: EgressInjection, secrets: Secrets): string | undefined {
  const value = secrets(secret)
  if (value === undefined || !HEADER_VALUE.test(value)) return undefined
  // Not as a replacement text, which gives a meaning to `$`.
  return template.replaceAll('{{secret}}', () => value)
}

/** A line break would start a header of its own. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

const secretMissing = (host: string, rule: EgressRule, secret: string): EgressDenial => ({
  ...{ code: 'secret_missing', host, rule: ruleName(rule) },
  hint: `the secret ${secret} is not set, or has characters that no header has`,
})

const methodsOf = (rules: readonly CompiledRule[]): string => [...new Set(rules.flatMap(({ rule }) => rule.methods ?? []))].join(', ')

const pathHint = (rules: readonly CompiledRule[]): string =>
  `the path is not allowed, only ${[...new Set(rules.flatMap(({ rule }) => rule.paths ?? []))].slice(0, 8).join(', ')}`
