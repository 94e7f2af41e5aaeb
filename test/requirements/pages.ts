import { globSync, readFileSync } from 'node:fs'
import { ROOT } from '../e2e/support/program.ts'

/** Where a line is from: stated by the specification, following from it, for interoperability, our choice. Decisions and sections have none. */
export type Origin = 'S' | 'I' | 'U' | 'P'
export type Requirement = { id: string; page: string; origin: Origin | undefined }

export const PAGES = `${ROOT}docs/requirements/`
/** Written by `npm test`; what it says of other pages is not a source. */
export const TESTS_PAGE = 'tests.md'

const ANCHOR = /<a id="([^"]+)"><\/a>(?:\*\*\[[^\]]+\]\([^)]+\)\*\* \(([SIUP])\))?/g

/** Every line and section that has an anchor in docs/requirements, page by page in their order. */
export const readRequirements = (): Map<string, Requirement> => {
  const requirements = new Map<string, Requirement>()
  for (const page of globSync('*.md', { cwd: PAGES }).toSorted()) {
    if (page === TESTS_PAGE) continue
    for (const [, id = '', origin] of readFileSync(`${PAGES}${page}`, 'utf8').matchAll(ANCHOR)) {
      const other = requirements.get(id)
      if (other !== undefined) throw new Error(`${id} has two anchors: in ${other.page} and in ${page}`)
      requirements.set(id, { id, page, origin: origin as Origin | undefined })
    }
  }
  return requirements
}

/** The lines of the pages 0-xx to 3-xx that the specification states or implies. A whole run must show each of them. */
export const mustBeShown = ({ id, origin }: Requirement): boolean => /^[0-3]-/.test(id) && (origin === 'S' || origin === 'I')
