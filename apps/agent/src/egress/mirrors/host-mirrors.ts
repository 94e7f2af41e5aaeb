import { isLoopback } from '@boxoffice/kit/is-loopback'
import type { EgressException } from '../policy/egress-rules.ts'
import { type ClientSettings, type ClientSettingsOptions, goSettings, npmSettings, pipSettings } from './client-settings.ts'

/** A place that a package client of this machine takes packages from, and how a client in a sandbox is told. */
export type HostMirror = EgressException & { variables: Readonly<Record<string, string>> }

export type HostMirrorsOptions = ClientSettingsOptions & {
  /** Hears of a mirror that is left out, without its URL. */
  onLeftOut: (client: string, why: string) => void
}

/**
 * The mirrors that the package clients of this machine are configured with, by their variables and files: of pip, uv, npm and Go. Left out
 * are URLs with credentials, which no sandbox is to see, and those at the loopback of this machine, which is another one in a sandbox.
 */
export const readHostMirrors = ({ onLeftOut, ...options }: HostMirrorsOptions): HostMirror[] => {
  const { env } = options
  const mirrors: HostMirror[] = []
  const take = (client: string, variable: string, text: string | undefined, more: Record<string, string> = {}): void => {
    if (text === undefined) return
    // The text is handed on as a whole, so all of it has to be known: nothing that could hold a name and password, or a token of a query.
    if (/[@?;"']/.test(text)) return onLeftOut(client, HIDES)
    // An index of uv may have a name before it.
    const found = text
      .split(/[\s,|]+/)
      .map((part) => part.replace(/^[\w.-]+=/, ''))
      .filter((part) => /^https?:\/\//i.test(part))
    const places: EgressException[] = []
    for (const part of found) {
      const place = placeOf(part)
      if (typeof place === 'string') return onLeftOut(client, place)
      places.push(place)
    }
    for (const place of places) mirrors.push({ ...place, variables: { [variable]: text, ...more } })
  }

  const pip = pipSettings(options)
  const trusted: ClientSettings = pip['trusted-host'] === undefined ? {} : { PIP_TRUSTED_HOST: pip['trusted-host'] }
  take('pip', 'PIP_INDEX_URL', pip['index-url'], trusted)
  take('pip', 'PIP_EXTRA_INDEX_URL', pip['extra-index-url'], trusted)

  take('uv', 'UV_DEFAULT_INDEX', env.UV_DEFAULT_INDEX || env.UV_INDEX_URL || pip['index-url'])
  take('uv', 'UV_INDEX', env.UV_INDEX || env.UV_EXTRA_INDEX_URL || undefined)

  take('npm', 'NPM_CONFIG_REGISTRY', npmSettings(options).registry)

  const go = goSettings(options)
  const sums = Object.fromEntries(['GOSUMDB', 'GONOSUMDB'].flatMap((name) => (go[name] === undefined ? [] : [[name, go[name]]])))
  take('go', 'GOPROXY', go.GOPROXY, sums)
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
