/** A page of the product on a preview host, with the headers that go with it. */
export type PreviewPage = { html: string; headers: Record<string, string> }

/** `body`: HTML after the text. `policy`: of scripts and forms. `embedOrigins`: who may show it in a frame. */
export type PreviewPageParts = { title: string; text: string; body: string; policy: string; embedOrigins: readonly string[] }

/** What a person reads on a preview host that the program behind it has not written. */
export const previewPage = ({ title, text, body, policy, embedOrigins }: PreviewPageParts): PreviewPage => {
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

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
