/** The text as PostgreSQL can hold it: U+FFFD in place of U+0000 and of half a surrogate pair. */
export const holdableText = (text: string): string => text.replaceAll('\0', '\uFFFD').toWellFormed()
