import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { BoxofficeError } from '@boxoffice/protocol'
import { hasUnread } from '../bodies/unread-body.ts'
import { rawResponse } from '../refusals/raw-response.ts'
import { type PreviewPage, previewPage } from './preview-page.ts'

const COMMON = { 'Cache-Control': 'no-store', 'X-Robots-Tag': 'noindex' }

/** A browser that goes to a page. Older ones and plain-HTTP pages do not say so; then a page is what they ask for. */
const isNavigation = ({ method, headers }: IncomingMessage): boolean => {
  if ((method !== 'GET' && method !== 'HEAD') || headers.upgrade !== undefined) return false
  const mode = headers['sec-fetch-mode']
  return mode === 'navigate' || (mode === undefined && takesHtml(headers))
}

const takesHtml = ({ accept }: IncomingHttpHeaders): boolean => accept?.includes('text/html') === true

/** Sends a page of the product's own. */
export const sendPreviewPage = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  status: number,
  { html, headers }: PreviewPage,
): void => send(incoming, outgoing, { status, headers, body: html })

/**
 * Refuses: with a page where a person goes to one, else with the usual envelope, never by a redirect. A host behind which nothing will
 * be again has the browser forget what it keeps of it.
 */
export const refusePreview = (incoming: IncomingMessage, outgoing: ServerResponse, error: BoxofficeError, requestId: string): void => {
  if (outgoing.headersSent) return void outgoing.destroy()
  const wantsPage = isNavigation(incoming) || (takesHtml(incoming.headers) && incoming.headers['sec-fetch-dest'] === 'document')
  const { html, headers } = wantsPage
    ? previewPage({
        ...{ title: TITLES[error.code] ?? 'The preview cannot be shown', text: textOf(error), body: '' },
        ...{ policy: "form-action 'none'", embedOrigins: [] },
      })
    : { html: JSON.stringify(error.envelope(requestId)), headers: { 'Content-Type': 'application/json' } }
  send(incoming, outgoing, { status: error.status, headers: { ...headers, ...refusalHeaders(error, requestId) }, body: html })
}

/** The same before an upgrade. */
export const refusePreviewSocket = (socket: Duplex, error: BoxofficeError, requestId: string): void => {
  const headers = { ...COMMON, ...refusalHeaders(error, requestId), 'Content-Type': 'application/json' }
  rawResponse(socket, error.status, headers, JSON.stringify(error.envelope(requestId)))
}

type Reply = { status: number; headers: Record<string, string>; body: string }

const send = (incoming: IncomingMessage, outgoing: ServerResponse, { status, headers, body }: Reply): void => {
  const closing = hasUnread(incoming) ? { Connection: 'close' } : {}
  outgoing.writeHead(status, { ...COMMON, ...headers, ...closing, 'Content-Length': Buffer.byteLength(body) })
  outgoing.end(incoming.method === 'HEAD' ? undefined : body)
}

const refusalHeaders = (error: BoxofficeError, requestId: string): Record<string, string> => ({
  'X-Request-Id': requestId,
  ...(error.code === 'SESSION_EXPIRED' && { 'Clear-Site-Data': '"*"' }),
  ...((error.retryable || error.retryAfter !== undefined) && { 'Retry-After': String(error.retryAfter ?? 1) }),
})

const TITLES: Partial<Record<BoxofficeError['code'], string>> = {
  UNAUTHENTICATED: 'This preview is private',
  TOKEN_EXPIRED: 'Your visit has run out',
  FORBIDDEN: 'This preview is not open to you',
  SESSION_RELEASED: 'This preview has ended',
  SESSION_EXPIRED: 'This preview has ended',
  PORT_NOT_LISTENING: 'Nothing listens there yet',
  SANDBOX_STARTING: 'The sandbox is starting',
}

const HOW_TO_ENTER =
  'Ask whoever runs the sandbox for a link. One is made by "boxoffice ports link", or by session.ports.link(port), and opens this preview once.'

const textOf = ({ code, message, details }: BoxofficeError): string => {
  if (code === 'UNAUTHENTICATED' || code === 'TOKEN_EXPIRED') return `${message}. ${HOW_TO_ENTER}`
  const listening = Array.isArray(details?.listening) ? details.listening.join(', ') : ''
  return listening === '' ? message : `${message}. Programs listen on: ${listening}`
}
