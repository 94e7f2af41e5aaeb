/** A whole number above 0 from an environment variable. */
export const countOf = (variable: string, otherwise: number): number => {
  const text = process.env[variable]
  if (text === undefined || text === '') return otherwise
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new Error(`${variable}: ${JSON.stringify(text)} is not a whole number above 0`)
  return Number(text)
}
