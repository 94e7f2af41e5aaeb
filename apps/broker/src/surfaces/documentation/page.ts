/** `api`: where the description is that the page shows. */
export type DocsText = { title: string; intro: string; api: string }

/** The page runs its own script and asks its own server; nothing else. */
export const docsHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'",
}

/** `/docs`: reads `/openapi.json` and shows it. Self-contained, so that it works without internet and loads nothing from others. */
export const docsPage = ({ title, intro, api }: DocsText): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
  details { border: 1px solid #d0d7de; border-radius: 6px; margin: .5rem 0; }
  summary { padding: .5rem .75rem; cursor: pointer; }
  summary b { display: inline-block; width: 4.5rem; }
  summary span { color: #57606a; margin-left: .75rem; }
  section { padding: 0 .75rem .75rem; border-top: 1px solid #d0d7de; }
  h3 { font-size: .9rem; margin: .75rem 0 .25rem; }
  pre { background: #f6f8fa; padding: .5rem; border-radius: 6px; overflow: auto; max-height: 24rem; margin: 0; }
  code { font: 13px ui-monospace, monospace; }
  @media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } pre { background: #161b22; } }
</style>
<h1>${title}</h1>
<p>The same description for machines: <a href="${api}">${api}</a>.
${intro}</p>
<div id="routes">Loading…</div>
<script>
  const el = (tag, text, ...children) => {
    const node = document.createElement(tag)
    if (text) node.textContent = text
    node.append(...children)
    return node
  }
  const block = (title, value) => [el('h3', title), el('pre', '', el('code', JSON.stringify(value, null, 2)))]
  fetch('${api}').then((answer) => answer.json()).then((api) => {
    const list = document.getElementById('routes')
    list.textContent = ''
    for (const [path, methods] of Object.entries(api.paths))
      for (const [method, route] of Object.entries(methods)) {
        const body = el('section')
        if (route.parameters) body.append(...block('Parameters', route.parameters))
        if (route.requestBody) body.append(...block('Request body', route.requestBody.content['application/json'].schema))
        for (const [status, answer] of Object.entries(route.responses)) {
          const schema = answer.content && Object.values(answer.content)[0].schema
          body.append(...block(status + ': ' + answer.description, schema || null))
        }
        list.append(el('details', '', el('summary', '', el('b', method.toUpperCase()), el('code', path), el('span', route.summary)), body))
      }
  })
</script>
</html>
`
