import type { z } from 'zod'
import { environmentName, kebabCase, settingNames } from './config-file.ts'
import { numberRange } from './number-range.ts'
import { UsageError } from './usage-error.ts'

export type Sources = {
  /** From the command line, by name; undefined or absent where not given. */
  flags: Readonly<Record<string, unknown>>
  env: NodeJS.ProcessEnv
  /** From the configuration file, by name. */
  file: Readonly<Record<string, unknown>>
}

/** By what name a part's setting goes on this command line, where it differs (`port` of the agent is `agentPort` under `up`). */
export type Renames = Readonly<Record<string, string>>

/** What settings were called before: still read from every source, and shown nowhere. */
export const FORMER_NAMES: Readonly<Record<string, readonly string[]>> = { relaySplice: ['relayMover'] }

/**
 * The settings of one part (broker or agent), each from the first source that has it: flags, environment, file. Every value
 * is checked by the part's own schema; an error names the setting, where it came from, and what is wrong. `flagNames`: flags that have
 * another name than the setting, while its variable has not.
 */
export const resolveSettings = (
  shape: Readonly<Record<string, unknown>>,
  sources: Sources,
  renames: Renames = {},
  flagNames: Renames = {},
): Record<string, unknown> => {
  const settings: Record<string, unknown> = {}
  for (const [key, schema] of Object.entries(shape)) {
    const found = find(renames[key] ?? key, sources, flagNames[key])
    if (found !== undefined) settings[key] = check(schema as z.ZodType, found)
  }
  return settings
}

/** Refuses names in a configuration file that no part knows: a misspelt setting is not silently the default. */
export const refuseUnknown = (file: Readonly<Record<string, unknown>>, known: Iterable<string>): void => {
  const names = new Set(known)
  const former = new Set([...names].flatMap((name) => FORMER_NAMES[name] ?? []))
  const unknown = Object.keys(file).find((name) => !names.has(name) && !former.has(name))
  if (unknown === undefined) return
  throw new UsageError(`config: ${snakeCase(unknown)} is not a setting here; there are: ${[...names].map(snakeCase).sort().join(', ')}`)
}

type Found = { value: unknown; from: string }

/** The first source that has the setting, by today's name or by an earlier one. */
const find = (name: string, { flags, env, file }: Sources, flagName = name): Found | undefined => {
  const names = [name, ...(FORMER_NAMES[name] ?? [])]
  const flag = [flagName, ...names].find((each) => flags[each] !== undefined)
  if (flag !== undefined) return { value: flags[flag], from: `--${kebabCase(flag)}` }
  const variable = names.map(environmentName).find((each) => env[each] !== undefined && env[each] !== '')
  if (variable !== undefined) return { value: env[variable], from: variable }
  const key = names.find((each) => file[each] !== undefined)
  return key === undefined ? undefined : { value: file[key], from: `${snakeCase(key)} in the config file` }
}

const check = (schema: z.ZodType, { value, from }: Found): unknown => {
  const range = numberRange(schema)
  const readings = typeof value !== 'string' ? [value] : range === undefined ? readingsOf(value) : numbersOf(value)
  const fitting = readings.find((reading) => schema.safeParse(reading).success)
  if (fitting !== undefined) return fitting
  if (range !== undefined) throw new UsageError(`${from}: ${JSON.stringify(value)} is not ${range}`)
  const issue = schema.safeParse(readings[0]).error?.issues[0]
  const where = issue?.path.length ? `${issue.path.join('.')}: ` : ''
  throw new UsageError(`${from}: ${where}${issue === undefined ? 'not valid' : wrong(issue)}`)
}

/** What is wrong with a value; zod's own words for a choice are those of a programmer. */
const wrong = (issue: z.core.$ZodIssue): string =>
  issue.code === 'invalid_value' && issue.message.startsWith('Invalid ') ? `must be one of ${issue.values.join(', ')}` : issue.message

/** A text that is a number, as that; an empty one or `true` is none. */
const numbersOf = (text: string): number[] => (text.trim() !== '' && Number.isFinite(Number(text)) ? [Number(text)] : [])

/** What a text on a command line or in the environment may stand for, the likeliest first. */
const readingsOf = (text: string): unknown[] => {
  const readings: unknown[] = [...jsonReadings(text), text]
  readings.push(...numbersOf(text))
  if (/^(true|yes|on|1)$/i.test(text)) readings.push(true)
  if (/^(false|no|off|0)$/i.test(text)) readings.push(false)
  readings.push(text.split(',').map((part) => part.trim()))
  return readings
}

/** JSON first, so that an error is about what is in it. An object's names may be written as in the file. */
const jsonReadings = (text: string): unknown[] => {
  if (!/^\s*[[{]/.test(text)) return []
  try {
    const parsed: unknown = JSON.parse(text)
    return Array.isArray(parsed) ? [parsed] : [settingNames(parsed as object), parsed]
  } catch {
    return []
  }
}

const snakeCase = (name: string): string => kebabCase(name).replaceAll('-', '_')
