import { BoxofficeError } from '@boxoffice/protocol'
import { type GlobPart, globParts } from './glob-parts.ts'

const MAX_GLOB_LENGTH = 1024
/** At most some 30 ms. */
const MAX_STEPS_OF_PATH = 200_000
/** Some seconds: `src/**\/*.json` takes a tenth for a tree of 100,000 entries. */
const MAX_STEPS = 100_000_000

/**
 * Matches paths with a glob that a client wrote. A part of the glob turns the set of places where it may begin into the set of those where
 * it may end, so the cost grows with the product of the lengths and not with the number of ways to match, as it does with a regular
 * expression: `*a*a*a*a*b` would take minutes for one name. Throws INVALID_REQUEST for a glob that is too long or takes too many steps.
 */
export class Glob {
  readonly #parts: readonly GlobPart[]
  readonly #isNegated: boolean
  readonly #isForNames: boolean
  #path = ''
  #steps = 0
  #stepsOfPath = 0

  constructor(glob: string) {
    if (glob.length > MAX_GLOB_LENGTH) throw new BoxofficeError('INVALID_REQUEST', `pattern: at most ${MAX_GLOB_LENGTH} characters`)
    const [negations = ''] = /^!*(?!\()/.exec(glob) ?? []
    this.#isNegated = negations.length % 2 === 1
    this.#isForNames = !glob.includes('/')
    this.#parts = globParts(glob.slice(negations.length).replace(/^\.\//, ''))
  }

  /** The work that all calls of `matches` took. */
  get steps(): number {
    return this.#steps
  }

  /** A glob without a slash is for names at any depth [1-42]. */
  matches(path: string): boolean {
    this.#path = this.#isForNames ? path.slice(path.lastIndexOf('/') + 1) : path
    this.#stepsOfPath = 0
    return this.#follow(this.#parts, [0]).at(-1) === this.#path.length ? !this.#isNegated : this.#isNegated
  }

  /** Where one of the choices may end that begins at one of `places`; in order, as all sets of places are. */
  #choose(choices: readonly (readonly GlobPart[])[], places: readonly number[]): readonly number[] {
    const ends = choices.map((parts) => this.#follow(parts, places))
    return ends.length === 1 && ends[0] !== undefined ? ends[0] : this.#union(ends)
  }

  #follow(parts: readonly GlobPart[], places: readonly number[]): readonly number[] {
    let reached = places
    for (const part of parts) {
      if (reached.length === 0) break
      reached = this.#pass(part, reached)
    }
    return reached
  }

  #pass(part: GlobPart, places: readonly number[]): readonly number[] {
    const path = this.#path
    this.#spend(places.length)
    if (part.kind === 'text') {
      const { text } = part
      this.#spend(places.length * (text.length >> 4))
      return places.filter((place) => path.startsWith(text, place)).map((place) => place + text.length)
    }
    if (part.kind === 'one') {
      this.#spend(places.length * (part.ranges.length >> 3))
      return places.filter((place) => place < path.length && isOneOf(part, path.charAt(place))).map((place) => place + 1)
    }
    if (part.kind === 'choice') return this.#repeat(part, places)
    const ends: number[] = []
    let next = 0
    for (const place of places) {
      const last = part.kind === 'path' ? path.length : endOfName(path, place)
      for (next = Math.max(next, place); next <= last; next++) ends.push(next)
    }
    this.#spend(ends.length)
    return ends
  }

  #repeat({ times, of }: GlobPart & { kind: 'choice' }, places: readonly number[]): readonly number[] {
    if (times === 'once') return this.#choose(of, places)
    if (times === 'optional') return this.#union([places, this.#choose(of, places)])
    if (times === 'not') return this.#union(places.map((place) => this.#allBut(place, new Set(this.#choose(of, [place])))))
    const reached = new Set(times === 'any' ? places : [])
    for (let from = places; from.length > 0; ) {
      from = this.#choose(of, from).filter((place) => !reached.has(place))
      for (const place of from) reached.add(place)
    }
    return this.#union([[...reached]])
  }

  #allBut(place: number, ends: ReadonlySet<number>): number[] {
    const others: number[] = []
    for (let end = place; end <= endOfName(this.#path, place); end++) if (!ends.has(end)) others.push(end)
    return others
  }

  #union(sets: readonly (readonly number[])[]): readonly number[] {
    const marks = new Uint8Array(this.#path.length + 1)
    let count = 0
    for (const places of sets) {
      count += places.length
      for (const place of places) marks[place] = 1
    }
    this.#spend(count + (marks.length >> 3))
    const all: number[] = []
    for (let place = marks.indexOf(1); place !== -1; place = marks.indexOf(1, place + 1)) all.push(place)
    return all
  }

  #spend(steps: number): void {
    this.#steps += steps
    this.#stepsOfPath += steps
    if (this.#stepsOfPath > MAX_STEPS_OF_PATH || this.#steps > MAX_STEPS)
      throw new BoxofficeError('INVALID_REQUEST', 'pattern: takes too many steps for what is listed')
  }
}

function endOfName(path: string, place: number): number {
  const slash = path.indexOf('/', place)
  return slash === -1 ? path.length : slash
}

function isOneOf({ isNot, ranges }: GlobPart & { kind: 'one' }, character: string): boolean {
  return character !== '/' && ranges.some(([first, last]) => first <= character && character <= last) !== isNot
}
