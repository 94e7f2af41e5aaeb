/** A glob as parts, each of which stands for a piece of a path. */
export type GlobPart =
  | { kind: 'text'; text: string }
  /** One character of a name. */
  | { kind: 'one'; isNot: boolean; ranges: readonly (readonly [string, string])[] }
  /** `*`: any characters of one name. */
  | { kind: 'name' }
  /** `**`: any characters. */
  | { kind: 'path' }
  /** `{a,b}` and `(a|b)` are once. */
  | { kind: 'choice'; times: 'once' | 'optional' | 'any' | 'some' | 'not'; of: readonly (readonly GlobPart[])[] }

const TIMES = { '@': 'once', '?': 'optional', '*': 'any', '+': 'some', '!': 'not' } as const
const ANY_CHARACTER: GlobPart = { kind: 'one', isNot: true, ranges: [] }

/** What a part can be: `*`, `?`, `**`, `[…]`, `{a,b}`, `{a..c}`, `(a|b)` with `?`, `*`, `+`, `@` or `!` before it, and `\`. */
export function globParts(glob: string): GlobPart[] {
  return new GlobReader(glob).sequence(0, glob.length)
}

class GlobReader {
  readonly #glob: string
  /** Where the bracket that opens at a place closes. One that is not here stands for itself. */
  readonly #closes: ReadonlyMap<number, number>

  constructor(glob: string) {
    this.#glob = glob
    this.#closes = bracketsOf(glob)
  }

  choices(from: number, to: number, separator: '|' | ','): GlobPart[][] {
    const choices: GlobPart[][] = []
    let start = from
    for (let at = from; at < to; at = this.#next(at))
      if (this.#glob[at] === separator) {
        choices.push(this.sequence(start, at))
        start = at + 1
      }
    return [...choices, this.sequence(start, to)]
  }

  /** The place after the character, escape or bracket at `at`. */
  #next(at: number): number {
    return this.#glob[at] === '\\' ? at + 2 : (this.#closes.get(at) ?? at) + 1
  }

  sequence(from: number, to: number): GlobPart[] {
    const parts: GlobPart[] = []
    for (let at = from; at < to; ) {
      const character = this.#glob.charAt(at)
      if (this.#isRepeat(at)) {
        const close = this.#closes.get(at + 1) ?? to
        parts.push({ kind: 'choice', times: TIMES[character as keyof typeof TIMES], of: this.choices(at + 2, close, '|') })
        at = close + 1
      } else if (character === '*') at = this.#stars(parts, at, from, to)
      else {
        this.#single(parts, at)
        at = this.#next(at)
      }
    }
    return parts
  }

  /** Whether `?(`, `*(`, `+(`, `@(` or `!(` is at `at`. */
  #isRepeat(at: number): boolean {
    return Object.hasOwn(TIMES, this.#glob.charAt(at)) && this.#glob[at + 1] === '(' && this.#closes.has(at + 1)
  }

  /** Adds what the stars at `at` stand for; gives the place after them. */
  #stars(parts: GlobPart[], at: number, from: number, to: number): number {
    let end = at
    while (end < to && this.#glob[end] === '*' && !this.#isRepeat(end)) end++
    const isWhole = (at === from || this.#glob[at - 1] === '/') && (end === to || this.#glob[end] === '/')
    if (end - at !== 2 || !isWhole) {
      parts.push({ kind: 'name' })
      return end
    }
    // `**/**` is `**`.
    while (this.#glob.startsWith('/**', end) && (end + 3 === to || this.#glob[end + 3] === '/')) end += 3
    if (end < to) {
      parts.push({ kind: 'choice', times: 'optional', of: [[{ kind: 'path' }, { kind: 'text', text: '/' }]] })
      return end + 1
    }
    const last = parts.at(-1)
    if (last?.kind === 'text' && !(last.text === '/' && parts.at(-2)?.kind === 'name')) {
      // `a/**` is `a` too; `*/**` has a slash.
      last.text = last.text.slice(0, -1)
      parts.push({ kind: 'choice', times: 'optional', of: [[{ kind: 'text', text: '/' }, { kind: 'path' }]] })
    } else parts.push({ kind: 'path' })
    return end
  }

  #single(parts: GlobPart[], at: number): void {
    const character = this.#glob.charAt(at)
    const close = this.#closes.get(at)
    if (character === '?') parts.push(ANY_CHARACTER)
    else if (close === undefined) addText(parts, character === '\\' && at + 1 < this.#glob.length ? this.#glob.charAt(at + 1) : character)
    else if (character === '[') parts.push(oneOf(this.#glob.slice(at + 1, close)))
    else if (character === '(') parts.push({ kind: 'choice', times: 'once', of: this.choices(at + 1, close, '|') })
    else {
      const inside = this.#glob.slice(at + 1, close)
      const [, first, last] = /^([^\\])\.\.(.)$/s.exec(inside) ?? []
      const of = this.choices(at + 1, close, ',')
      if (first !== undefined && last !== undefined) parts.push({ kind: 'one', isNot: false, ranges: [[first, last]] })
      else if (of.length > 1) parts.push({ kind: 'choice', times: 'once', of })
      else {
        addText(parts, '{')
        parts.push(...(of[0] ?? []))
        addText(parts, '}')
      }
    }
  }
}

function addText(parts: GlobPart[], text: string): void {
  const last = parts.at(-1)
  if (last?.kind === 'text') last.text += text
  else parts.push({ kind: 'text', text })
}

/** One pass for all brackets, so that a glob of brackets alone costs no more than another. */
function bracketsOf(glob: string): Map<number, number> {
  const closes = new Map<number, number>()
  const open: number[] = []
  for (let at = 0; at < glob.length; at++) {
    const character = glob[at]
    if (character === '\\') at++
    else if (character === '[') {
      const close = classEnd(glob, at)
      if (close === -1) continue
      closes.set(at, close)
      at = close
    } else if (character === '(' || character === '{') open.push(at)
    else if (character === ')' || character === '}') {
      const opener = character === ')' ? '(' : '{'
      const index = open.findLastIndex((place) => glob[place] === opener)
      if (index === -1) continue
      closes.set(open[index] as number, at)
      open.length = index
    }
  }
  return closes
}

const CLASS = /\[[!^]?\]?(?:\\.|[^\]\\/])*\]/sy

/** The place of the `]`; -1 when the `[` at `at` begins no class. */
function classEnd(glob: string, at: number): number {
  CLASS.lastIndex = at
  return CLASS.test(glob) ? CLASS.lastIndex - 1 : -1
}

/** `[id]` is also a name of its own, as frameworks have them. */
function oneOf(inside: string): GlobPart {
  const isNot = /^[!^]/.test(inside)
  const characters = [...(isNot ? inside.slice(1) : inside).matchAll(/(\\?)(.)(?:-(\\?)([^\]]))?/gs)]
  const ranges = characters.map(([, , first = '', , last = first]): [string, string] => [first, last])
  const one: GlobPart = { kind: 'one', isNot, ranges }
  return /[-*+?.^${}(|)[\]\\!]/.test(inside) ? one : { kind: 'choice', times: 'once', of: [[one], [{ kind: 'text', text: `[${inside}]` }]] }
}
