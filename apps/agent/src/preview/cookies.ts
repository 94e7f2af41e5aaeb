import { PREVIEW_COOKIE } from '@boxoffice/protocol'

/** Names that are the product's own, however they are written: browsers compare the prefix without case. */
const OWN = /^__host-bx_/i
/** A tossed cookie may stand before the right one. */
const MAX_CANDIDATES = 4

const nameOf = (pair: string): string => {
  const equals = pair.indexOf('=')
  // A cookie without a name is sent as its value alone, which reads like a name then.
  return (equals === -1 ? pair : equals === 0 ? pair.slice(1) : pair.slice(0, equals)).trim()
}

const pairsOf = (header: string): string[] =>
  header
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair !== '')

/** The `Cookie` header for the program, without the product's own; undefined where nothing is left. */
export const withoutOwnCookies = (header: string): string | undefined => {
  const kept = pairsOf(header).filter((pair) => !OWN.test(nameOf(pair)))
  return kept.length === 0 ? undefined : kept.join('; ')
}

/** The values that claim to be the preview's own cookie. */
export const previewCookies = (header: string | undefined): string[] =>
  header === undefined
    ? []
    : pairsOf(header)
        .filter((pair) => pair.startsWith(`${PREVIEW_COOKIE}=`))
        .map((pair) => pair.slice(PREVIEW_COOKIE.length + 1))
        .slice(0, MAX_CANDIDATES)

/** A program's `Set-Cookie` as the browser gets it: of its own host only. Undefined for one that is named like the product's own. */
export const hostOnlyCookie = (header: string): string | undefined => {
  const [pair = '', ...attributes] = header.split(';')
  if (OWN.test(nameOf(pair.trim()))) return undefined
  return [pair, ...attributes.filter((attribute) => !/^\s*domain\s*(=|$)/i.test(attribute))].join(';')
}

/** The cookie that a browser shows from now on. A page that shows the preview in a frame has it in a jar of its own. */
export const previewCookie = (token: string, maxAgeSeconds: number, isEmbedded: boolean): string =>
  [
    `${PREVIEW_COOKIE}=${token}`,
    'Path=/',
    `Max-Age=${maxAgeSeconds}`,
    'HttpOnly',
    'Secure',
    isEmbedded ? 'SameSite=None; Partitioned' : 'SameSite=Lax',
  ].join('; ')
