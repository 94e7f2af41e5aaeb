import type { IncomingMessage, ServerResponse } from 'node:http'
import { readAtMost, sendPreviewPage } from '@boxoffice/node-http'
import { BoxofficeError, isReturnPath, PREVIEW_ENTER_PATH, type PreviewGrant, type PreviewRoute } from '@boxoffice/protocol'
import { previewCookie } from './cookies.ts'
import { enterPage } from './enter-page.ts'

/** Exchanges the code of a link for the token of a cookie, once. Rejects with UNAUTHENTICATED for one that is no good on this host. */
export type ExchangeCode = (hostname: string, code: string) => Promise<PreviewGrant>

/** Below it nothing of the program is reached. */
const RESERVED = '/.well-known/boxoffice'
const MAX_FORM_BYTES = 8192

export const isReserved = (url: string): boolean => url === RESERVED || url.startsWith(`${RESERVED}/`)

/** The requests by which a browser comes in. A GET shows the page and takes nothing: link previews leave the link as it is. */
export const serveEnter = async (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { hostname, route, exchange }: { hostname: string; route: PreviewRoute; exchange: ExchangeCode },
): Promise<void> => {
  const { method, headers } = incoming
  if (incoming.url?.split('?')[0] !== PREVIEW_ENTER_PATH) throw new BoxofficeError('NOT_FOUND', 'There is no such page')
  if (method === 'GET' || method === 'HEAD') return sendPreviewPage(incoming, outgoing, 200, enterPage(route.embed_origins))
  if (method !== 'POST') throw new BoxofficeError('METHOD_NOT_ALLOWED', 'The page of a link has GET and POST')
  if (headers.origin !== route.url) throw new BoxofficeError('FORBIDDEN', 'Origin: must be the preview itself')
  const form = new URLSearchParams((await readAtMost(incoming, { limit: MAX_FORM_BYTES, tooLong })).toString())
  const path = form.get('return') ?? '/'
  if (!isReturnPath(path)) throw new BoxofficeError('INVALID_REQUEST', 'return: must be a path that starts with a single /')
  const { token, max_age_seconds } = await exchange(hostname, form.get('code') ?? '')
  outgoing.writeHead(303, {
    'Set-Cookie': previewCookie(token, max_age_seconds, route.embed_origins.length > 0),
    Location: path,
    'Cache-Control': 'no-store',
    'Referrer-Policy': 'no-referrer',
    'X-Robots-Tag': 'noindex',
    'Content-Length': 0,
  })
  outgoing.end()
}

const tooLong = (): BoxofficeError => new BoxofficeError('PAYLOAD_TOO_LARGE', `The form is larger than ${MAX_FORM_BYTES} bytes`)
