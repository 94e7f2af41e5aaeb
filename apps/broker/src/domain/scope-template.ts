import { BoxofficeError } from '@boxoffice/protocol'

/** What a template's variables stand for in one request. Numbers are ids that somebody counts. */
export type Variables = Readonly<Record<string, string | number | undefined>>

/** What stands for a variable that nobody set [0-07]. */
const UNSET = 'unknown'
/** Rendered ids are shown and typed by people; longer ones are a mistake [0-11]. */
const MAX_RENDERED = 200
/** Between two variables without text between them; no encoded value has it. */
const JOINT = '%-'

const PART = /\{([A-Za-z_][A-Za-z0-9_]*)\}|([^{}]+)/y

type Part = { literal: string } | { variable: string }

/**
 * Renders a scope template such as `{launcher_type}_{launcher_id}` to the id of a scope [0-01].
 *
 * No two sets of values give the same id under one template: in values, `%`, white space, control characters and every character
 * that the template itself has as text are percent-encoded, byte by byte as in URLs [0-12]. Throws 400 `INVALID_REQUEST` for
 * anything in braces that is not a plain variable [0-10], and for an id that is empty or too long.
 */
export function renderScope(template: string, variables: Variables): string {
  const parts = parse(template)
  const literals = new Set(parts.flatMap((part) => ('literal' in part ? [...part.literal] : [])))
  const rendered = parts
    .map((part, index) => {
      if ('literal' in part) return part.literal
      const before = parts[index - 1]
      const joint = before !== undefined && 'variable' in before ? JOINT : ''
      return joint + encode(String(own(variables, part.variable) ?? UNSET), literals)
    })
    .join('')
  if (rendered === '' || rendered.length > MAX_RENDERED)
    throw invalid(
      'variables',
      `the template gives an id of ${rendered.length} characters; it must have 1 to ${MAX_RENDERED}: shorten or set what it uses`,
    )
  return rendered
}

function parse(template: string): Part[] {
  const parts: Part[] = []
  for (let at = 0; at < template.length; at = PART.lastIndex) {
    PART.lastIndex = at
    const match = PART.exec(template)
    if (match === null)
      throw invalid(
        'template',
        `the brace at character ${at + 1} does not begin a variable; use {name} with letters, digits and _, such as {launcher_id}`,
      )
    parts.push(match[1] === undefined ? { literal: match[2] ?? '' } : { variable: match[1] })
  }
  return parts
}

/** A variable called `constructor` is as unset as any other. */
const own = (variables: Variables, name: string): string | number | undefined =>
  Object.hasOwn(variables, name) ? variables[name] : undefined

const encode = (value: string, literals: ReadonlySet<string>): string => {
  if (!value.isWellFormed()) throw invalid('variables', 'values must be valid Unicode, without half a surrogate pair')
  return [...value]
    .map((character) => (literals.has(character) || /[%\s\p{Cc}]/u.test(character) ? percent(character) : character))
    .join('')
}

const percent = (character: string): string =>
  [...new TextEncoder().encode(character)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')

const invalid = (field: string, message: string): BoxofficeError =>
  new BoxofficeError('INVALID_REQUEST', `${field}: ${message}`, { details: { field } })
