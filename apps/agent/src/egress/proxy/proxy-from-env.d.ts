declare module 'proxy-from-env' {
  /** The URL of the proxy for a URL by `*_PROXY` and `NO_PROXY` of the environment; empty for none. */
  export const getProxyForUrl: (url: string) => string
}
