/** One line of a page of docs/requirements (`4-90`, `C-50`), or one section of its contract (`2.5`). */
const NUMBER = /(?<![\w.=-])([0-4C])-(\d{2,3})(?!\w|-\w|\.\d)(?:\.\.(?:[0-4C]-)?(\d{2,3})\b)?/g
const SECTION = String.raw`\d(?:\.\d{1,2})?`
/** `contract 2.5`, `contract section 2.6`, `contract 3.10, 4.5`; also over the end of a line in a comment. */
const CONTRACT = new RegExp(
  String.raw`\bcontract(?: section)?[\s*/]+(${SECTION}(?:(?:, | and | to )${SECTION}(?![\w.]\d))*)(?![\w-])`,
  'gi',
)
const BRACKETS = /\[([^[\]]+)\]/g
/** `check('2.14, C-72', …)` of a conformance case, whose title has them in brackets. */
const CASE = /\bcheck\('([^']+)'/g
const IN_BRACKETS = /^(?:contract )?(?:[0-4C]-\d{2,3}(?:(?:\.\.| to )(?:[0-4C]-)?\d{2,3})?|(\d\.\d{1,2}))$/

/** `'0-01..0-03, C-05'` → `['0-01', '0-02', '0-03', 'C-05']`; what is no number is passed over. */
export const numbersIn = (text: string): string[] =>
  [...text.matchAll(NUMBER)].flatMap(([, page, first = '', last = first]) =>
    Array.from({ length: Number(last) - Number(first) + 1 }, (_, i) => `${page}-${String(Number(first) + i).padStart(2, '0')}`),
  )

/** `'[2.14, C-72] (contract 2.5)'` → `['2.14', '2.5']`. Brackets that hold anything but citations, such as an array of numbers, are passed over. */
export const sectionsIn = (text: string): string[] => [
  ...[...text.matchAll(BRACKETS), ...text.matchAll(CASE)].flatMap(([, inner = '']) => {
    const found = inner.split(/,\s*/).map((item) => IN_BRACKETS.exec(item))
    return found.includes(null) ? [] : found.flatMap((match) => match?.[1] ?? [])
  }),
  ...[...text.matchAll(CONTRACT)].flatMap(([, list = '']) => list.split(/, | and | to /)),
]

/** The numbers and sections that a title cites in brackets. */
export const citedIn = (title: string): string[] =>
  [...title.matchAll(BRACKETS)].flatMap(([whole, inner = '']) => [...numbersIn(inner), ...sectionsIn(whole)])
