import { createHash } from 'node:crypto'
import { type PreviewPage, previewPage } from '@boxoffice/node-http'
import { PREVIEW_ENTER_PATH } from '@boxoffice/protocol'

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
export const enterPage = (embedOrigins: readonly string[]): PreviewPage =>
  previewPage({
    title: 'Opening the preview',
    text: 'The link is being exchanged. Without JavaScript, or without a code in the link, nothing happens here.',
    body: `<form method="post" action="${PREVIEW_ENTER_PATH}"><input type="hidden" name="code"><input type="hidden" name="return"></form><script>${ENTER_SCRIPT}</script>`,
    policy: `script-src 'sha256-${sha256(ENTER_SCRIPT)}'; form-action 'self'`,
    embedOrigins,
  })

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64')
