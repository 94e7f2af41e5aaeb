/** What a glob is made of: a class, or what stands for something else than itself. */
const PART = /\*\*\/|\*+|\?|\[[!^]?\]?[^\]/]*\]|\\.|[{},.+^$[\\]/gs

/**
 * A glob as an expression of `find -regex`, in what GNU's and BusyBox's read alike. `*` and `?` stay within one part of a path, `**` does
 * not; `{a,b}` is either. Its size is that of the glob.
 */
export function findRegex(glob: string): string {
  let depth = 0
  const regex = glob.replace(PART, (part) => {
    if (part === '**/') return '\\(.*/\\)*'
    if (part.startsWith('*')) return part === '*' ? '[^/]*' : '.*'
    if (part === '?') return '[^/]'
    if (part.length > 1) return part.startsWith('\\') ? findLiteral(part.slice(1)) : part.replace(/^\[!/, '[^')
    if (part === '{') {
      depth++
      return '\\('
    }
    if (part === '}' && depth > 0) {
      depth--
      return '\\)'
    }
    return part === ',' && depth > 0 ? '\\|' : findLiteral(part)
  })
  return regex + '\\)'.repeat(depth)
}

/** A text that stands for itself there. */
export const findLiteral = (text: string): string => text.replace(/[.*+?$[]/g, '[$&]').replace(/[\\^]/g, '\\$&')
