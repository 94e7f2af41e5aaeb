import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from './e2e/support/program.ts'

const OTHERS: ReadonlySet<string> = new Set(['node_modules', 'target', 'dist'])
const pages = globSync(['*.md', '{apps,packages,docs,deploy,skills,test}/**/*.md'], {
  cwd: ROOT,
  exclude: (path) => OTHERS.has(basename(path)),
})
const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8')
const withoutCode = (text: string): string => text.replace(/^```[\s\S]*?^```/gm, '').replace(/`[^`\n]*`/g, '')

/** What a `#…` may name: explicit anchors, and headings as GitHub makes ids of them. */
const anchorsOf = (page: string): ReadonlySet<string> => {
  const known = anchors.get(page) ?? readAnchors(page)
  anchors.set(page, known)
  return known
}
const anchors = new Map<string, ReadonlySet<string>>()

const readAnchors = (page: string): ReadonlySet<string> => {
  const text = read(page)
  const headings = [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .replace(/<[^>]*>|\]\([^)]*\)/g, '')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_\- ]/gu, '')
      .replaceAll(' ', '-'),
  )
  return new Set([...headings, ...[...text.matchAll(/<a id="([^"]+)"/g)].map(([, id = '']) => id)])
}

const DEFINITION = /^\[([^\]]+)\]: (\S+)$/gm

/** Links in the text, and those that names such as `[4-90]` are defined as. */
const deadLinksOf = (page: string, text: string): string[] => {
  const plain = withoutCode(text)
  const targets = [...plain.matchAll(/\]\(([^)\s]+)\)/g), ...[...plain.matchAll(DEFINITION)].map(([, , target]) => ['', target])]
  return targets.flatMap(([, target = '']) => {
    if (/^[a-z]+:/.test(target)) return []
    const [path = '', anchor] = target.split('#')
    const file = path === '' ? page : join(dirname(page), path)
    if (!existsSync(join(ROOT, file))) return `${page}: ${target}`
    return anchor === undefined || !file.endsWith('.md') || anchorsOf(file).has(anchor) ? [] : `${page}: ${target}`
  })
}

/** Numbers of lines and sections in brackets that no definition makes a link. */
const undefinedIn = (text: string): string[] => {
  const defined = new Set([...text.matchAll(DEFINITION)].map(([, name]) => name))
  const cited = withoutCode(text).matchAll(/\[([0-4C]-\d{2,3}|\d(?:\.\d{1,2})?)\](?![(:])/g)
  return [...cited].flatMap(([, name = '']) => (defined.has(name) ? [] : name))
}

test('every link of a page leads to a file, and to a heading or an anchor of it', () => {
  expect(pages.length).toBeGreaterThan(50)
  expect(pages.flatMap((page) => deadLinksOf(page, read(page)))).toEqual([])
})

test('every number in brackets in docs/requirements is a link', () => {
  const ofRequirements = pages.filter((page) => dirname(page) === 'docs/requirements')
  expect(ofRequirements.length).toBeGreaterThan(5)
  expect(ofRequirements.flatMap((page) => undefinedIn(read(page)).map((name) => `${page}: ${name}`))).toEqual([])
})

test('a link that leads nowhere is found', () => {
  const text = '[a](docs/nothing.md) [b](docs/cli.md#no-such-heading) `[c](nothing)` [d](https://example.com)\n[e]: docs/none.md\n'
  const found = ['docs/nothing.md', 'docs/cli.md#no-such-heading', 'docs/none.md']
  expect(deadLinksOf('README.md', text)).toEqual(found.map((target) => `README.md: ${target}`))
  expect(undefinedIn('[4-90] `[4-91]` [2.5](a.md) [C-01]\n[4-90]: a.md\n')).toEqual(['C-01'])
})
