import { existsSync, readFileSync } from 'node:fs'
import { devNull } from 'node:os'
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
export const pipSettings = (options: ClientSettingsOptions): ClientSettings => {
  const files = pipFiles(options).map((path) => read(path, joinedLines))
  return Object.assign(
    {},
    ...files.flatMap(({ global, install }) => [settingsIn(global), settingsIn(install)]),
    fromEnv(options.env, 'PIP_'),
  )
}

/** A file that a variable names takes the place of the user's; the null device, that of all. */
const pipFiles = ({ env, home, etc = ETC }: ClientSettingsOptions): string[] => {
  const named = env.PIP_CONFIG_FILE
  if (named === devNull) return []
  const allUsers = [join(etc, 'xdg/pip/pip.conf'), join(etc, 'pip.conf')]
  if (named && existsSync(named)) return [...allUsers, named]
  return [...allUsers, join(home, '.pip/pip.conf'), join(home, '.config/pip/pip.conf')]
}

/** pip's files are those of Python: a line that begins further in than its setting goes on with the value of that. */
const joinedLines = (text: string): string => {
  const lines: string[] = []
  let settingIndent = Number.POSITIVE_INFINITY
  for (const line of text.split(/\r?\n/)) {
    const trimmed = line.trim()
    if (trimmed === '' || /^[#;]/.test(trimmed)) continue
    const indent = line.length - line.trimStart().length
    if (indent > settingIndent) {
      lines.push(`${lines.pop()} ${trimmed}`)
      continue
    }
    // Python takes a colon for the equals sign.
    lines.push(trimmed.replace(/^([^=:[]+):/, '$1='))
    settingIndent = trimmed.startsWith('[') ? Number.POSITIVE_INFINITY : indent
  }
  return lines.join('\n')
}

export const npmSettings = ({ env, home, execPath, etc = ETC }: ClientSettingsOptions): ClientSettings => {
  const files = [join(dirname(dirname(execPath)), 'etc/npmrc'), join(etc, 'npmrc'), join(home, '.npmrc')].map((path) => read(path))
  return Object.assign({}, ...files.map(settingsIn), fromEnv(env, 'NPM_CONFIG_'), fromEnv(env, 'npm_config_'))
}

/** By the names of the variables, which are those of the file. */
export const goSettings = ({ env, home }: ClientSettingsOptions): Readonly<Record<string, string | undefined>> => ({
  ...Object.fromEntries(texts(read(join(home, '.config/go/env')))),
  ...Object.fromEntries(texts(env)),
})

const settingsIn = (section: unknown): ClientSettings => settingsOf(texts(section))

const fromEnv = (env: ClientSettingsOptions['env'], prefix: string): ClientSettings =>
  settingsOf(texts(env).flatMap(([name, value]) => (name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : [])))

const settingsOf = (entries: readonly (readonly [string, string])[]): ClientSettings =>
  Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase().replaceAll('_', '-'), value]))

/** What is text among the values of a section. An empty one counts as none with each of the clients. */
const texts = (section: unknown): [string, string][] =>
  typeof section === 'object' && section !== null
    ? Object.entries(section).flatMap(([name, value]) =>
        typeof value === 'string' && value !== '' ? [[name, value] as [string, string]] : [],
      )
    : []

/** Files that are not there, or not for us, say nothing. */
const read = (path: string, prepare = (text: string): string => text): Record<string, unknown> => {
  try {
    return parse(prepare(readFileSync(path, 'utf8')))
  } catch {
    return {}
  }
}
