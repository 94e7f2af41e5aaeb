/**
 * Whether this is a browser, in a page or in a worker. `navigator.userAgent` of each begins so, and that of Node, Deno and Bun does not.
 */
export const isBrowser = (): boolean => globalThis.navigator?.userAgent?.startsWith('Mozilla/') === true
