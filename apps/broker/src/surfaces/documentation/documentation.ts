import { z } from 'zod'
import { defineRoute } from '../../http/route.ts'
import type { Surface } from '../../http/surface.ts'
import { describe } from './describe.ts'
import { docsHeaders, docsPage } from './page.ts'

/** `/openapi.json` and `/docs`, which tell of all surfaces and of themselves. */
export function createDocumentation(surfaces: readonly Surface[], publicUrl: string): Surface {
  const own: Surface = {
    name: 'documentation',
    routes: [
      defineRoute({
        method: 'GET',
        path: '/openapi.json',
        summary: 'This description',
        auth: 'none',
        responses: { 200: { description: 'OpenAPI 3.1', schema: z.looseObject({ openapi: z.string() }) } },
        handle: () => ({ status: 200, json: document() }),
      }),
      defineRoute({
        method: 'GET',
        path: '/docs',
        summary: 'This description, to read',
        auth: 'none',
        responses: { 200: { description: 'A page that needs nothing from elsewhere', contentType: 'text/html' } },
        handle: () => ({
          status: 200,
          text: docsPage({
            title: 'Boxoffice API',
            api: '/openapi.json',
            intro: 'Send <code>Authorization: Bearer &lt;API key&gt;</code>.',
          }),
          headers: docsHeaders,
        }),
      }),
    ],
  }
  let built: object | undefined
  const document = () => (built ??= describe([...surfaces, own], publicUrl))
  return own
}
