import { BrokerConfig } from '@boxoffice/broker/config'
import type { Command } from 'commander'
import { environmentName, kebabCase } from './config-file.ts'
import { DATABASE_FLAGS, nameOf } from './flags.ts'
import { resolveSettings } from './resolve.ts'
import { sourcesOf } from './service.ts'
import { UsageError } from './usage-error.ts'

type Name = 'databaseUrl' | 'secretKeyFile'

/** Gives a command those of the broker's flags by which it reaches a PostgreSQL database. */
export const withDatabase = (command: Command, names: readonly Name[]): Command => {
  for (const { flags, description } of DATABASE_FLAGS)
    if (names.includes(nameOf(flags) as Name)) command.option(flags, `${description} (${environmentName(nameOf(flags))})`)
  return command.option('--config <file>', 'JSON file with any of these settings')
}

/** The broker's settings of these names, from the same sources as the broker's. `flagNames`: what the command calls a flag otherwise. */
export const databaseSettings = <N extends Name>(
  names: readonly N[],
  flags: Record<string, unknown>,
  flagNames: Partial<Record<Name, string>> = {},
): Record<N, string> => {
  const settings = optionalDatabaseSettings(names, flags, flagNames)
  const missing = names.find((name) => settings[name] === undefined)
  if (missing !== undefined)
    throw new UsageError(`--${flagNames[missing] ?? kebabCase(missing)} (${environmentName(missing)}): is required`)
  return settings as Record<N, string>
}

/** The same, as far as they are set. */
export const optionalDatabaseSettings = <N extends Name>(
  names: readonly N[],
  flags: Record<string, unknown>,
  flagNames: Partial<Record<Name, string>> = {},
): Partial<Record<N, string>> => {
  const shape = Object.fromEntries(names.map((name) => [name, BrokerConfig.shape[name]]))
  return resolveSettings(shape, sourcesOf(flags), {}, flagNames) as Partial<Record<N, string>>
}
