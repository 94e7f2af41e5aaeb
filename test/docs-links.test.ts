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

const deadLinksOf = (page: string, text: string): string[] =>
  [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = '']) => {
    if (/^[a-z]+:/.test(target)) return []
    const [path = '', anchor] = target.split('#')
    const file = path === '' ? page : join(dirname(page), path)
    if (!existsSync(join(ROOT, file))) return `${page}: ${target}`
    return anchor === undefined || !file.endsWith('.md') || anchorsOf(file).has(anchor) ? [] : `${page}: ${target}`
  })

test('every link of a page leads to a file, and to a heading or an anchor of it', () => {
  expect(pages.length).toBeGreaterThan(50)
  expect(pages.flatMap((page) => deadLinksOf(page, read(page)))).toEqual([])
})

test('a link that leads nowhere is found', () => {
  expect(deadLinksOf('README.md', '[a](docs/nothing.md) [b](docs/cli.md#no-such-heading) `[c](nothing)` [d](https://example.com)')).toEqual(
    ['README.md: docs/nothing.md', 'README.md: docs/cli.md#no-such-heading'],
  )
})
