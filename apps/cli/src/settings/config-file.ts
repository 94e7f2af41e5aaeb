import { readFileSync } from 'node:fs'
import { UsageError } from './usage-error.ts'

/** The settings of a JSON file, by their names in camelCase; the file may write them in snake_case or kebab-case. */
export const readConfigFile = (path: string): Record<string, unknown> => {
  let parsed: unknown
  try {
    parsed = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new UsageError(`config: ${path} cannot be read as JSON: ${(error as Error).message}`)
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    throw new UsageError(`config: ${path} must hold one JSON object`)
  return settingNames(parsed)
}

/** Profiles and labels are wire objects, and lists are named by their writer: their fields keep their names. */
const AS_WRITTEN = new Set(['profiles', 'labels', 'egressLists'])

export const settingNames = (settings: object): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(settings).map(([written, value]: [string, unknown]) => {
      const name = camelCase(written)
      const nested = typeof value === 'object' && value !== null && !Array.isArray(value) && !AS_WRITTEN.has(name)
      return [name, nested ? settingNames(value) : value]
    }),
  )

export const camelCase = (name: string): string => name.replace(/[-_]+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
export const kebabCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
export const environmentName = (name: string): string => `BOXOFFICE_${kebabCase(name).replaceAll('-', '_').toUpperCase()}`
