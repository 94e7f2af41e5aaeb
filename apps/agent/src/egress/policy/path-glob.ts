type Token = { kind: 'text'; code: number } | { kind: 'part' } | { kind: 'rest' }

/**
 * Compiles a pattern of paths: `**` stands for any characters, `*` for any but slashes, all else for itself. A match takes time in proportion
 * to path × pattern at most, whatever the two are.
 */
export function compilePathGlob(pattern: string): (path: string) => boolean {
  const tokens = tokensOf(encoded(pattern))
  return (path) => matches(tokens, path)
}

/** As paths are normalised: what is not ASCII in UTF-8 with percent signs, hexadecimal digits in upper case. */
const encoded = (pattern: string): string =>
  pattern.replace(/[^\x21-\x7e]+/g, encodeURIComponent).replace(/%[0-9a-f]{2}/gi, (triplet) => triplet.toUpperCase())

function tokensOf(pattern: string): readonly Token[] {
  return (pattern.match(/\*{2,}|\*|[^*]/g) ?? []).map((piece) =>
    piece === '*' ? { kind: 'part' } : piece.startsWith('*') ? { kind: 'rest' } : { kind: 'text', code: piece.charCodeAt(0) },
  )
}

const SLASH = 0x2f

/** `states` are the tokens that may take the next character. */
function matches(tokens: readonly Token[], path: string): boolean {
  let states = closure(tokens, [0])
  for (let at = 0; at < path.length && states.length > 0; at++) {
    const code = path.charCodeAt(at)
    const next: number[] = []
    for (const state of states) {
      const token = tokens[state]
      if (token === undefined) continue
      if (token.kind === 'text') {
        if (token.code === code) next.push(state + 1)
      } else if (token.kind === 'rest' || code !== SLASH) next.push(state)
    }
    states = closure(tokens, next)
  }
  return states.includes(tokens.length)
}

/** A star may stand for nothing. */
function closure(tokens: readonly Token[], from: readonly number[]): number[] {
  const found = new Set<number>()
  for (let state of from) {
    found.add(state)
    while (tokens[state] !== undefined && tokens[state]?.kind !== 'text') found.add(++state)
  }
  return [...found]
}
