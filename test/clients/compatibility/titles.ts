import { parseSync } from 'oxc-parser'

/** The names of the tests that a file defines: titles of `test(…)` in TypeScript, functions and classes named `test…` in Python. */
export const titlesIn = (file: string, text: string): Set<string> => {
  if (file.endsWith('.py'))
    return new Set([...text.matchAll(/^\s*(?:(?:async )?def (test_\w+)|class (Test\w+))/gm)].map(([, f, c]) => f ?? c ?? ''))
  const titles = new Set<string>()
  visit(parseSync(file, text).program as unknown as Node, (node) => {
    if (node.type !== 'CallExpression' || rootOf(node.callee) !== 'test') return
    const title = textOf((node.arguments as Node[])[0])
    if (title !== undefined) titles.add(title)
  })
  return titles
}

type Node = { type: string; [field: string]: unknown }

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && 'type' in value

const visit = (node: Node, call: (node: Node) => void): void => {
  call(node)
  for (const value of Object.values(node)) for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child, call)
}

/** `test` of `test(…)`, `test.for(…)(…)` and `test.runIf(…)(…)`. */
const rootOf = (callee: unknown): string | undefined => {
  if (!isNode(callee)) return undefined
  if (callee.type === 'Identifier') return String(callee.name)
  return rootOf(callee.type === 'MemberExpression' ? callee.object : callee.type === 'CallExpression' ? callee.callee : undefined)
}

const textOf = (argument: unknown): string | undefined => {
  if (!isNode(argument)) return undefined
  if (argument.type === 'Literal' && typeof argument.value === 'string') return argument.value
  const [quasi, another] = argument.type === 'TemplateLiteral' ? (argument.quasis as { value: { cooked: string } }[]) : []
  return another === undefined ? quasi?.value.cooked : undefined
}
