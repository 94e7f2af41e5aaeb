import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parse } from 'ini'

export type ClientSettingsOptions = {
  env: Readonly<Record<string, string | undefined>>
  /** Of who runs the agent. */
  home: string
  /** Of Node, whose npm has a file of settings beside it. */
  execPath: string
  /** Where settings for all users are; by default `/etc`. */
  etc?: string
}

/** Settings of one package client of this machine, by their names in lower case with hyphens. */
export type ClientSettings = Readonly<Record<string, string>>

const ETC = '/etc'

/** The later files count, as with pip itself; `install` is the command that is meant. */
export const pipSettings = ({ env, home, etc = ETC }: ClientSettingsOptions): ClientSettings => {
  const files = [join(etc, 'pip.conf'), join(home, '.pip/pip.conf'), join(home, '.config/pip/pip.conf')].map(read)
  return Object.assign({}, ...files.flatMap(({ global, install }) => [settingsIn(global), settingsIn(install)]), fromEnv(env, 'PIP_'))
}

export const npmSettings = ({ env, home, execPath, etc = ETC }: ClientSettingsOptions): ClientSettings => {
  const files = [join(dirname(dirname(execPath)), 'etc/npmrc'), join(etc, 'npmrc'), join(home, '.npmrc')].map(read)
  return Object.assign({}, ...files.map(settingsIn), fromEnv(env, 'NPM_CONFIG_'), fromEnv(env, 'npm_config_'))
}

/** By the names of the variables, which are those of the file. */
export const goSettings = ({ env, home }: ClientSettingsOptions): Readonly<Record<string, string | undefined>> => ({
  ...Object.fromEntries(texts(read(join(home, '.config/go/env')))),
  ...env,
})

const settingsIn = (section: unknown): ClientSettings => settingsOf(texts(section))

const fromEnv = (env: ClientSettingsOptions['env'], prefix: string): ClientSettings =>
  settingsOf(texts(env).flatMap(([name, value]) => (name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : [])))

const settingsOf = (entries: readonly (readonly [string, string])[]): ClientSettings =>
  Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase().replaceAll('_', '-'), value]))

/** What is text among the values of a section. */
const texts = (section: unknown): [string, string][] =>
  typeof section === 'object' && section !== null
    ? Object.entries(section).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value] as [string, string]] : []))
    : []

/** Files that are not there, or not for us, say nothing. */
const read = (path: string): Record<string, unknown> => {
  try {
    return parse(readFileSync(path, 'utf8'))
  } catch {
    return {}
  }
}
