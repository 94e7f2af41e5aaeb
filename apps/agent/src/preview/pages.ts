import { createHash } from 'node:crypto'
import { PREVIEW_ENTER_PATH } from '@boxoffice/protocol'

/** A page of the product on a preview host, with the headers that go with it. */
export type Page = { html: string; headers: Record<string, string> }

/** The code is in the fragment, which no server and no link preview gets; the form takes it away from the address first. */
const ENTER_SCRIPT = `
const given = new URLSearchParams(location.hash.slice(1))
history.replaceState(null, '', location.pathname)
const form = document.forms[0]
form.elements.code.value = given.get('code') ?? ''
form.elements.return.value = given.get('return') ?? '/'
if (given.has('code')) form.submit()
`

/** Exchanges the code of a link for a cookie, by a POST of its own origin. `embedOrigins`: who may show it in a frame. */
export const enterPage = (embedOrigins: readonly string[]): Page =>
  page({
    title: 'Opening the preview',
    text: 'The link is being exchanged. Without JavaScript, or without a code in the link, nothing happens here.',
    body: `<form method="post" action="${PREVIEW_ENTER_PATH}"><input type="hidden" name="code"><input type="hidden" name="return"></form><script>${ENTER_SCRIPT}</script>`,
    policy: `script-src 'sha256-${sha256(ENTER_SCRIPT)}'; form-action 'self'`,
    embedOrigins,
  })

/** What a person reads in the place of the JSON of a refusal. */
export const refusalPage = (title: string, text: string): Page =>
  page({ title, text, body: '', policy: "form-action 'none'", embedOrigins: [] })

type Parts = { title: string; text: string; body: string; policy: string; embedOrigins: readonly string[] }

const page = ({ title, text, body, policy, embedOrigins }: Parts): Page => {
  const ancestors = embedOrigins.length === 0 ? "'none'" : embedOrigins.join(' ')
  return {
    html: `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>${escaped(title)}</title><main><h1>${escaped(title)}</h1><p>${escaped(text)}</p>${body}</main></html>`,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': `default-src 'none'; base-uri 'none'; frame-ancestors ${ancestors}; ${policy}`,
      // Not `no-referrer`: the form would have no origin to show.
      'Referrer-Policy': 'same-origin',
      'X-Content-Type-Options': 'nosniff',
    },
  }
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64')

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
