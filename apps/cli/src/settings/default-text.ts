import type { z } from 'zod'

/** The default that a schema gives a setting, as a text of a command line; undefined where it has none, or an empty or negative one. */
export const defaultText = (schema: z.ZodType): string | undefined => {
  const value = defaultOf(schema)
  if (value === undefined || value === null || value === false) return undefined
  const text = Array.isArray(value) ? value.join(',') : String(value)
  return text === '' ? undefined : text
}

/** The default that a schema gives a setting; undefined where it has none. */
export const defaultOf = (schema: z.ZodType): unknown => {
  const { def } = schema as unknown as { def: { type: string; defaultValue?: unknown } }
  return def.type === 'default' ? def.defaultValue : undefined
}
