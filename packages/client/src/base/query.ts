/** `?name=value&…` of the parameters that have a value; empty without any. */
export const query = (parameters: Record<string, string | number | boolean | null | undefined>): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) if (value != null) search.set(name, String(value))
  const text = search.toString()
  return text && `?${text}`
}
