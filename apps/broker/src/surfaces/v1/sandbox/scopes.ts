import { Scope, ScopeVariables } from '@boxoffice/protocol'
import { z } from 'zod'
import { threadScope } from '../../../domain/scope.ts'
import { DEFAULT_SCOPE_TEMPLATE, SCOPE_TEMPLATE_FIELD } from '../../../domain/scope-catalog.ts'
import { renderScope } from '../../../domain/scope-template.ts'
import { type AnyRoute, defineRoute } from '../../../http/route.ts'

const Text = z.object({ en_US: z.string(), zh_Hans: z.string() })
const Field = z.object({
  name: z.string(),
  label: Text,
  description: Text,
  type: z.string(),
  required: z.boolean(),
  default: z.string(),
  options: z.array(z.object({ value: z.string(), label: Text })),
})

/** Scope templates: which there are, and what one means for given variables (contract 4.3). */
export const scopeRoutes = (): AnyRoute[] => [
  defineRoute({
    method: 'GET',
    path: '/v1/sandbox/scope-templates',
    summary: 'The choice of who shares a sandbox, with its labels',
    auth: 'key',
    responses: { 200: { description: 'A select field; its options are scope templates', schema: Field } },
    handle: () => ({ status: 200, json: SCOPE_TEMPLATE_FIELD }),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/sandbox/scopes/resolve',
    summary: 'Render a scope template; makes nothing',
    auth: 'key',
    body: z.object({ template: z.string().max(1000).default(DEFAULT_SCOPE_TEMPLATE), variables: ScopeVariables.default({}) }),
    responses: {
      200: {
        description: 'The scope that the variables belong to',
        schema: z.object({ template: z.string(), rendered: z.string(), scope: Scope }),
      },
    },
    handle({ body: { template, variables } }) {
      const rendered = renderScope(template, variables)
      return { status: 200, json: { template, rendered, scope: threadScope(rendered) } }
    },
  }),
]
