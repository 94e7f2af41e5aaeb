import { EGRESS_PORT } from '@boxoffice/protocol'
import { HIDDEN_DIRECTORY } from '../../files/hidden.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { TRUST_BUNDLE } from './trust-bundle.ts'

/** Where programs of a sandbox find the proxy. */
export const PROXY = `http://127.0.0.1:${EGRESS_PORT}`
const LOOPBACK = 'localhost,127.0.0.1,::1'
/** What a sandbox of bubblewrap has on PATH; that of a container is its image's. */
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Below the workspace: `/home` and `/tmp` of a sandbox are small and in memory, and package managers keep more. */
const HOME = `${HIDDEN_DIRECTORY}/home`
const TEMPORARY = `${HIDDEN_DIRECTORY}/tmp`
export const HOME_DIRECTORIES = [HOME, TEMPORARY] as const

/** Names by which programs take a file of authorities. npm leaves `NODE_EXTRA_CA_CERTS` aside where its settings name a file. */
const TRUST_VARIABLES = [
  'SSL_CERT_FILE',
  'NODE_EXTRA_CA_CERTS',
  'NPM_CONFIG_CAFILE',
  'CURL_CA_BUNDLE',
  'REQUESTS_CA_BUNDLE',
  'PIP_CERT',
  'GIT_SSL_CAINFO',
  'AWS_CA_BUNDLE',
  'CARGO_HTTP_CAINFO',
  'DENO_CERT',
  'CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE',
  'NIX_SSL_CERT_FILE',
]

/**
 * Variables that make programs use the proxy. Each name is one that some program reads: there is no common one. `ALL_PROXY` names
 * HTTP, as some clients cannot read a SOCKS address there.
 */
export const egressEnvironment = (): Record<string, string> => ({
  ...{ HTTP_PROXY: PROXY, http_proxy: PROXY, HTTPS_PROXY: PROXY, https_proxy: PROXY },
  ...{ ALL_PROXY: PROXY, all_proxy: PROXY, grpc_proxy: PROXY, NO_PROXY: LOOPBACK, no_proxy: LOOPBACK },
  NODE_USE_ENV_PROXY: '1',
  ...Object.fromEntries(TRUST_VARIABLES.map((name) => [name, TRUST_BUNDLE])),
  UV_NATIVE_TLS: '1',
  JDK_JAVA_OPTIONS: ['http', 'https'].map((scheme) => `-D${scheme}.proxyHost=127.0.0.1 -D${scheme}.proxyPort=${EGRESS_PORT}`).join(' '),
})

/** Variables that let package managers install into the workspace, without root. */
export const homeEnvironment = (workspacePath: string, isolation: Sandbox['isolation']): Record<string, string> => {
  const home = `${workspacePath}/${HOME}`
  const binaries = ['.local/bin', '.npm-global/bin', '.cargo/bin', 'go/bin'].map((directory) => `${home}/${directory}`)
  return {
    HOME: home,
    TMPDIR: `${workspacePath}/${TEMPORARY}`,
    XDG_CACHE_HOME: `${home}/.cache`,
    ...{ PIP_USER: '1', PIP_BREAK_SYSTEM_PACKAGES: '1', PIP_DISABLE_PIP_VERSION_CHECK: '1' },
    ...{ NPM_CONFIG_PREFIX: `${home}/.npm-global`, NPM_CONFIG_UPDATE_NOTIFIER: 'false' },
    ...(isolation === 'bubblewrap' ? { PATH: [...binaries, SYSTEM_PATH].join(':') } : {}),
  }
}
