import { Ajv2020 } from 'ajv/dist/2020.js'

type Content = Record<string, { schema: object }>
/** What a test needs of a schema to find a value that it refuses. */
export type Schema = { type?: string; enum?: unknown[]; const?: unknown; minimum?: number; maximum?: number }
type Parameter = { in: string; name: string; required?: boolean; schema: Schema }
type Response = { content?: Content; headers?: Record<string, { required?: boolean }> }
type Operation = {
  parameters?: Parameter[]
  requestBody?: { content: Content }
  responses: Record<string, Response>
  /** Of a socket: what each side sends. */
  'x-frames'?: { client: object[]; server: object[] }
}
/** What the tests read of an OpenAPI document. */
export type Document = { paths: Record<string, Record<string, Operation>> }

/** One request and its answer; `sent` and `answer` are undefined where they are no JSON. */
export type Exchange = {
  method: string
  path: string
  sent: unknown
  status: number
  type: string | undefined
  headers: Headers
  answer: unknown
}

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
    headers: response.headers,
    answer: type === JSON_TYPE ? await response.clone().json() : undefined,
  })
  return response
}

/** Says what is wrong with a value by the schema at a place of a document; undefined: nothing. */
export type Check = (place: readonly string[], value: unknown) => string | undefined

/** For what a server says an object has the fields that are described, and no others: readers pass over more, writers must not forget. */
export function checkOf(document: Document, { written }: { written: boolean }): Check {
  const whole = written ? closed(document) : document
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true }).addSchema(whole, 'api')
  return (place, value) => {
    const validate = ajv.compile({ $ref: `api#/${place.map(escaped).join('/')}` })
    return validate(value) ? undefined : ajv.errorsText(validate.errors)
  }
}

const closed = (document: Document): Document =>
  JSON.parse(JSON.stringify(document), (_, value) =>
    value?.type === 'object' && value.properties !== undefined && value.additionalProperties === undefined
      ? { ...value, additionalProperties: false }
      : value,
  )

/**
 * Compares requests and answers with a document: bodies that were accepted, statuses, media types, headers, answers. Gives what differs, and the
 * operations that have succeeded. Paths of the exchanges begin where the document's do; others are left out.
 */
export function compare(document: Document, exchanges: readonly Exchange[]): { differences: unknown[]; succeeded: Set<string> } {
  const checkSent = checkOf(document, { written: false })
  const checkAnswer = checkOf(document, { written: true })
  const differences: unknown[] = []
  const succeeded = new Set<string>()
  const note = (what: string, errors: string | undefined, value: unknown): void => {
    if (errors !== undefined) differences.push({ what, errors, value })
  }
  for (const { method, path, sent, status, type, headers, answer } of exchanges) {
    const template = templateOf(document, method, path)
    const operation = template === undefined ? undefined : document.paths[template]?.[method]
    if (template === undefined || operation === undefined) continue
    const what = `${method} ${template} ${status}`
    const key = status in operation.responses ? String(status) : 'default'
    if (status < 400) {
      if (key === 'default') differences.push({ what, errors: 'the status is not described' })
      succeeded.add(`${method} ${template}`)
      if (sent !== undefined)
        note(`body of ${what}`, checkSent(['paths', template, method, 'requestBody', 'content', JSON_TYPE, 'schema'], sent), sent)
    }
    const { content, headers: promised = {} } = operation.responses[key] ?? {}
    for (const [name, { required }] of Object.entries(promised))
      if (required === true && !headers.has(name)) differences.push({ what, errors: `the header ${name} is missing` })
    if (type !== undefined && content?.[type] === undefined) differences.push({ what, errors: `${type} is not described` })
    else if (type === JSON_TYPE)
      note(what, checkAnswer(['paths', template, method, 'responses', key, 'content', JSON_TYPE, 'schema'], answer), answer)
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
