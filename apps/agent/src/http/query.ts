import { BoxofficeError } from '@boxoffice/protocol'

/** The query of a URL, decoded strictly: what is not UTF-8 is refused, not replaced. */
export class Query {
  readonly #values: Map<string, string>

  constructor(text: string) {
    this.#values = text === '' ? EMPTY : parse(text)
  }

  get(name: string): string | undefined {
    return this.#values.get(name)
  }

  required(name: string): string {
    const value = this.#values.get(name)
    if (value === undefined) throw new BoxofficeError('INVALID_REQUEST', `${name}: missing in the query`)
    return value
  }

  flag(name: string, fallback: boolean): boolean {
    const value = this.#values.get(name)
    if (value === undefined) return fallback
    if (value === 'true' || value === '1') return true
    if (value === 'false' || value === '0') return false
    throw new BoxofficeError('INVALID_REQUEST', `${name}: must be true or false`)
  }

  integer(name: string, { min, max, fallback }: { min: number; max: number; fallback: number }): number {
    const value = this.#values.get(name)
    if (value === undefined) return fallback
    const number = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN
    if (number >= min && number <= max) return number
    throw new BoxofficeError('INVALID_REQUEST', `${name}: must be an integer from ${min} to ${max}`)
  }

  choice<T extends string>(name: string, choices: readonly T[], fallback: T): T {
    const value = this.#values.get(name)
    if (value === undefined) return fallback
    const choice = choices.find((one) => one === value)
    if (choice !== undefined) return choice
    throw new BoxofficeError('INVALID_REQUEST', `${name}: must be one of ${choices.join(', ')}`)
  }
}

const EMPTY = new Map<string, string>()

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', 'query: not valid percent-encoded UTF-8', { cause })
  }
}

const parse = (text: string): Map<string, string> => {
  const values = new Map<string, string>()
  for (const part of text.split('&')) {
    if (part === '') continue
    const at = part.indexOf('=')
    const name = decode(at === -1 ? part : part.slice(0, at))
    if (!values.has(name)) values.set(name, at === -1 ? '' : decode(part.slice(at + 1)))
  }
  return values
}
