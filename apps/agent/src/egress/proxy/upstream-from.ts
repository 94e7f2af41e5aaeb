import { getProxyForUrl } from 'proxy-from-env'

/** The proxy of the agent itself for a host, whose IPv6 address is in brackets; undefined where the agent dials it. */
export type Upstream = (target: { host: string; port: number }) => URL | undefined

/**
 * The proxy by the setting, for all hosts: its URL, or `none` whatever the environment says. Without a setting by `HTTPS_PROXY` of the environment, `ALL_PROXY` where that is not there, and
 * not for the hosts of `NO_PROXY`. Undefined for none. `onUnusable` hears of one in the environment that does not speak HTTP CONNECT,
 * without its URL, which may have a password.
 */
export function upstreamFrom(setting: string | undefined, onUnusable: () => void): Upstream | undefined {
  if (setting === 'none') return undefined
  if (setting !== undefined) {
    const url = new URL(setting)
    return () => url
  }
  const { HTTPS_PROXY, ALL_PROXY, https_proxy = HTTPS_PROXY, all_proxy = ALL_PROXY } = process.env
  const named = https_proxy || all_proxy
  if (!named) return undefined
  // Without a scheme it is HTTP, as to curl.
  const text = named.includes('://') ? named : `http://${named}`
  if (!URL.canParse(text) || !/^https?:/i.test(text)) return void onUnusable()
  const url = new URL(text)
  return ({ host, port }) => (getProxyForUrl(`https://${host}:${port}`) === '' ? undefined : url)
}
