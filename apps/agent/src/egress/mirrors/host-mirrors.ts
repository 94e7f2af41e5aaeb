import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isLoopback } from '@boxoffice/kit/is-loopback'
import { parse } from 'ini'
import type { EgressException } from '../policy/egress-rules.ts'

/** A place that a package client of this machine takes packages from, and how a client in a sandbox is told. */
export type HostMirror = EgressException & { variables: Readonly<Record<string, string>> }

export type HostMirrorsOptions = {
  env: Readonly<Record<string, string | undefined>>
  /** Of who runs the agent. */
  home: string
  /** Of Node, whose npm has a file of settings beside it. */
  execPath: string
  /** Hears of a mirror that is left out, without its URL. */
  onLeftOut: (client: string, why: string) => void
}

/** Settings of one client, by their names in lower case with hyphens. */
type Settings = Readonly<Record<string, string>>

/**
 * The mirrors that the package clients of this machine are configured with, by their variables and files: of pip, uv, npm and Go. Left out
 * are URLs with credentials, which no sandbox is to see, and those at the loopback of this machine, which is another one in a sandbox.
 */
export const readHostMirrors = ({ env, home, execPath, onLeftOut }: HostMirrorsOptions): HostMirror[] => {
  const mirrors: HostMirror[] = []
  const take = (client: string, text: string | undefined, variables: Record<string, string>): void => {
    if (text === undefined || text === '') return
    // The text is handed on as a whole, so all of it has to be known: nothing that could hold a name and password, or a token of a query.
    if (/[@?;"']/.test(text)) return onLeftOut(client, HIDES)
    const found = text.split(/[\s,|]+/).filter((part) => /^https?:\/\//i.test(part))
    const places: EgressException[] = []
    for (const part of found) {
      const place = placeOf(part)
      if (typeof place === 'string') return onLeftOut(client, place)
      places.push(place)
    }
    for (const place of places) mirrors.push({ ...place, variables })
  }

  const pip = { ...pipFiles(home), ...fromEnv(env, 'PIP_') }
  const trusted: Settings = pip['trusted-host'] === undefined ? {} : { PIP_TRUSTED_HOST: pip['trusted-host'] }
  take('pip', pip['index-url'], { PIP_INDEX_URL: pip['index-url'] ?? '', ...trusted })
  take('pip', pip['extra-index-url'], { PIP_EXTRA_INDEX_URL: pip['extra-index-url'] ?? '', ...trusted })

  const uv = env.UV_DEFAULT_INDEX ?? env.UV_INDEX_URL ?? pip['index-url']
  take('uv', uv, { UV_DEFAULT_INDEX: uv ?? '' })

  const npm = { ...npmFiles(home, execPath), ...fromEnv(env, 'NPM_CONFIG_'), ...fromEnv(env, 'npm_config_') }
  take('npm', npm.registry, { NPM_CONFIG_REGISTRY: npm.registry ?? '' })

  const go = { ...Object.fromEntries(texts(read(join(home, '.config/go/env')))), ...env }
  const sums = Object.fromEntries(['GOSUMDB', 'GONOSUMDB'].flatMap((name) => (go[name] === undefined ? [] : [[name, go[name]]])))
  take('go', go.GOPROXY, { GOPROXY: go.GOPROXY ?? '', ...sums })
  return mirrors
}

const HIDES = 'its URL has credentials, or may have; keep them as a secret, and have a rule set them'

/** Where a URL leads, or why it cannot be handed on. */
const placeOf = (text: string): EgressException | string => {
  if (!URL.canParse(text)) return 'its URL cannot be read'
  const { protocol, hostname, port } = new URL(text)
  if (isLoopback(hostname)) return "it is at this machine's loopback, which no sandbox reaches by that name"
  return { host: hostname, port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port) }
}

/** The later ones count, as with pip itself; `install` is the command that is meant. */
const pipFiles = (home: string): Settings => {
  const files = ['/etc/pip.conf', join(home, '.pip/pip.conf'), join(home, '.config/pip/pip.conf')].map(read)
  return Object.assign({}, ...files.flatMap(({ global, install }) => [settingsIn(global), settingsIn(install)]))
}

const npmFiles = (home: string, execPath: string): Settings => {
  const files = [join(dirname(dirname(execPath)), 'etc/npmrc'), '/etc/npmrc', join(home, '.npmrc')].map(read)
  return Object.assign({}, ...files.map(settingsIn))
}

const settingsIn = (section: unknown): Settings => settingsOf(texts(section))

const fromEnv = (env: HostMirrorsOptions['env'], prefix: string): Settings =>
  settingsOf(texts(env).flatMap(([name, value]) => (name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : [])))

const settingsOf = (entries: readonly (readonly [string, string])[]): Settings =>
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
