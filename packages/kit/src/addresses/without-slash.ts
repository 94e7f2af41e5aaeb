/** A URL or path without the slashes at its end. */
export function withoutSlash(url: string): string {
  let end = url.length
  while (end > 0 && url[end - 1] === '/') end--
  return url.slice(0, end)
}
