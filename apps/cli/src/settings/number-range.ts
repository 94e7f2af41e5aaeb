import { z } from 'zod'

/** What a setting must be, in words, if it is a number: `a whole number from 0 to 65535`. Undefined for other settings. */
export const numberRange = (schema: z.ZodType): string | undefined => {
  const { type, minimum, exclusiveMinimum, maximum } = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' })
  if (type !== 'number' && type !== 'integer') return undefined
  const kind = type === 'integer' ? 'a whole number' : 'a number'
  const above = exclusiveMinimum === undefined ? undefined : `above ${exclusiveMinimum}`
  const least = minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? above : `of at least ${minimum}`
  if (maximum === undefined || maximum === Number.MAX_SAFE_INTEGER) return [kind, least].filter(Boolean).join(' ')
  return minimum === undefined ? [kind, above, `up to ${maximum}`].filter(Boolean).join(' ') : `${kind} from ${minimum} to ${maximum}`
}
