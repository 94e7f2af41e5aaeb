import { Ajv2020 } from 'ajv/dist/2020.js'

type Content = Record<string, { schema: object }>
type Operation = { requestBody?: { content: Content }; responses: Record<string, { content?: Content }> }
/** What the tests read of an OpenAPI document. */
export type Document = { paths: Record<string, Record<string, Operation>> }

/** One request and its answer; `sent` and `answer` are undefined where they are no JSON. */
export type Exchange = { method: string; path: string; sent: unknown; status: number; type: string | undefined; answer: unknown }

const JSON_TYPE = 'application/json'

/** The operations of a document, as `post /v1/keys`. */
export const operationsOf = ({ paths }: Document): string[] =>
  Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`))

/** Calls `fetch` and notes what goes over the wire, with the path below `base`. */
export async function recorded(fetched: typeof fetch, exchanges: Exchange[], input: string | URL | Request, init?: RequestInit) {
  const response = await fetched(input, init)
  const type = response.headers.get('content-type')?.split(';')[0]
  exchanges.push({
    method: (init?.method ?? 'GET').toLowerCase(),
    path: new URL(input instanceof Request ? input.url : input).pathname,
    sent: typeof init?.body === 'string' && new Headers(init.headers).get('content-type') === JSON_TYPE ? JSON.parse(init.body) : undefined,
    status: response.status,
    type,
    answer: type === JSON_TYPE ? await response.clone().json() : undefined,
  })
  return response
}

/**
 * Compares requests and answers with a document: bodies that were accepted, statuses, media types, answers. Gives what differs, and the
 * operations that have succeeded. Paths of the exchanges begin where the document's do; others are left out.
 */
export function compare(document: Document, exchanges: readonly Exchange[]): { differences: unknown[]; succeeded: Set<string> } {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true }).addSchema(document, 'api')
  const differences: unknown[] = []
  const succeeded = new Set<string>()
  const check = (pointer: string[], value: unknown, what: string): void => {
    const validate = ajv.compile({ $ref: `api#/${pointer.map(escaped).join('/')}` })
    if (!validate(value)) differences.push({ what, errors: ajv.errorsText(validate.errors), value })
  }
  for (const { method, path, sent, status, type, answer } of exchanges) {
    const template = templateOf(document, method, path)
    const operation = template === undefined ? undefined : document.paths[template]?.[method]
    if (template === undefined || operation === undefined) continue
    const what = `${method} ${template} ${status}`
    const key = status in operation.responses ? String(status) : 'default'
    if (status < 400) {
      if (key === 'default') differences.push({ what, errors: 'the status is not described' })
      succeeded.add(`${method} ${template}`)
      if (sent !== undefined) check(['paths', template, method, 'requestBody', 'content', JSON_TYPE, 'schema'], sent, `body of ${what}`)
    }
    const content = operation.responses[key]?.content
    if (type !== undefined && content?.[type] === undefined) differences.push({ what, errors: `${type} is not described` })
    else if (type === JSON_TYPE) check(['paths', template, method, 'responses', key, 'content', JSON_TYPE, 'schema'], answer, what)
    else if (type === undefined && content !== undefined && status < 400) differences.push({ what, errors: 'a body is described' })
  }
  return { differences, succeeded }
}

const escaped = (part: string): string => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))

/** The path of the document that a path is; one without parameters goes before the others. */
function templateOf({ paths }: Document, method: string, path: string): string | undefined {
  if (paths[path]?.[method] !== undefined) return path
  return Object.keys(paths).find((template) => paths[template]?.[method] !== undefined && patternOf(template).test(path))
}

const patternOf = (template: string): RegExp => new RegExp(`^${template.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`)
