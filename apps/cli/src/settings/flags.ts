import type { Command } from 'commander'
import { camelCase, environmentName } from './config-file.ts'

/** A flag: what commander reads, and its description. Its environment variable follows from its name. */
type Flag = readonly [flags: string, description: string]

const TLS_FLAGS: readonly Flag[] = [
  ['--tls-cert <file>', 'PEM certificate, to listen with TLS'],
  ['--tls-key <file>', 'its key'],
]

const MAX_CONNECTIONS: Flag = ['--max-connections <count>', 'of each listener; default 8192']

export const BROKER_FLAGS: readonly Flag[] = [
  ['--host <address>', 'where to listen; default 127.0.0.1'],
  ['--port <port>', "the broker's port; 0 for a free one; default 7070"],
  ['--public-url <url>', 'where clients reach the broker; default: where it listens'],
  ['--enroll-token <token>', 'what agents show to register; default: made and kept'],
  ['--api-key <key>', 'an operator key of at least 32 characters'],
  ['--token-ttl <seconds>', 'lifetime of session tokens; default 600'],
  ['--max-sessions <count>', 'live sessions per tenant; default 1000'],
  ['--agent-lost-after <seconds>', 'silence after which the sessions of an agent are given up; default 120'],
  ['--cors-origins <origins>', 'web origins that may call, with commas between'],
  ['--trusted-proxies <addresses>', 'whose X-Forwarded-For counts, with commas between'],
  MAX_CONNECTIONS,
  ...TLS_FLAGS,
  ['--box-port <port>', 'serves the Box surface at the root of a port of its own; default: below /compat/box only'],
  ['--box-rpc-port <port>', 'the same, with the RPC at the root'],
  ['--compat <list>', 'surfaces of other systems, e.g. sbs=true,box=false; default box=true'],
  ['--features <list>', 'full=false serves the MVP of the protocol alone; default full=true'],
  ['--rate-limits <json>', 'tokens per second and burst, e.g. {"control_per_principal":{"per_second":20,"burst":100}}'],
  ['--authorizer <name>', 'who decides who may use a thread: claim, langgraph or webhook; default claim'],
  ['--authorizer-url <url>', 'of the LangGraph server, without /threads, or of the webhook'],
  ['--authorizer-secret <secret>', 'signs what the webhook is asked; at least 32 characters'],
  ['--authorizer-cache <seconds>', 'how long its yes is remembered, at most 60; default 60'],
  ['--oidc-issuer <issuer>', 'tokens of this identity provider are accepted beside API keys'],
  ['--oidc-jwks-url <url>', 'its keys'],
  ['--oidc-audience <audiences>', 'one of these must be in the token, with commas between'],
  ['--oidc-algorithms <names>', 'with commas between; default RS256,ES256,EdDSA'],
  ['--oidc-tenant <tenant>', 'of tokens whose claims name none; default default'],
  ['--oidc-claims <json>', 'names of claims: principal (default sub), tenant, role, rights, actor_type'],
  ['--allow-private-urls', 'authorizer and JWKS may be at addresses that are not public'],
  ['--relay-mover <file>', 'the supervisor that moves large uploads past the broker, or false; default: the one that ships'],
  ['--shared-data-dir', 'several brokers may use one data directory'],
  ['--log-level <level>', 'silent, error, warn, info, debug or trace; default info'],
]

const PROVIDER_FLAGS: readonly Flag[] = [
  ['--provider <name>', 'auto, docker or local; default auto'],
  ['--isolation <kind>', 'of the local provider: auto, bubblewrap or none; default auto'],
  ['--allow-unsafe-local', 'isolation none behind a listener that others can reach'],
  ['--docker-host <url>', "the engine's address; default: DOCKER_HOST, else the usual sockets"],
  ['--default-image <image>', 'for profiles that name none'],
  ['--allowed-host-mount-roots <dirs>', 'below which host paths may be mounted, with commas between; default none'],
  ['--default-host-workspace <dir>', 'the workspace of all sandboxes for which none is named; default: each has its own'],
  ['--blocked-host-paths <paths>', 'host paths that are never mounted, beside those that never are'],
  ['--supervisor-path <file>', 'the supervisor; default: the one that ships with the agent'],
  ['--relay <when>', 'whether clients go through the broker: auto (as they ask), always or never; default auto'],
  ['--dataplane-listen <unix:/path>', 'a unix socket in the place of host and port, for relay always'],
  ['--dataplane-url <url>', 'where brokers reach the agent to relay; default: where clients do'],
  ['--control-listen <host:port>', 'where the broker reaches the agent; default a free port of 127.0.0.1'],
  ['--control-url <url>', 'the same, as the broker sees it'],
  ['--insecure-network', "the control listener's network is private, it may do without TLS"],
  ['--dataplane-rates <json>', 'for execs and sockets, e.g. {"exec_per_principal":{"per_second":20,"burst":100}}; default none'],
  ['--destroy-on-exit', 'sandboxes end with this process; default: they stay'],
]

export const AGENT_FLAGS: readonly Flag[] = [
  ['--broker-url <url>', 'the broker to serve'],
  ['--enroll-token <token>', 'what the broker wants to see'],
  ['--host <address>', 'where to listen; default 127.0.0.1'],
  ['--port <port>', "the agent's port; 0 for a free one; default 7071"],
  ['--public-url <url>', 'where clients reach the agent; default: where it listens'],
  ...TLS_FLAGS,
  ['--cors-origins <origins>', 'web origins that may call, with commas between'],
  ['--trusted-proxies <addresses>', 'proxies and brokers, which connect for many clients, with commas between'],
  MAX_CONNECTIONS,
  ...PROVIDER_FLAGS,
  ['--log-level <level>', 'silent, error, warn, info, debug or trace; default info'],
]

export const UP_FLAGS: readonly Flag[] = [
  ...BROKER_FLAGS,
  ['--agent-host <address>', "where the agent listens; default: the broker's"],
  ['--agent-port <port>', "the agent's port; 0 for a free one; default 7071"],
  ['--agent-public-url <url>', 'where clients reach the agent; default: where it listens'],
  ...PROVIDER_FLAGS,
]

export const withFlags = (command: Command, flags: readonly Flag[]): Command => {
  for (const [name, description] of flags) command.option(name, `${description} (${environmentName(nameOf(name))})`)
  return command
    .option(
      '--data-dir <dir>',
      `holds everything that persists; default $XDG_STATE_HOME/boxoffice or ~/.local/state/boxoffice (BOXOFFICE_DATA_DIR)`,
    )
    .option('--config <file>', 'a JSON file with any of these settings (BOXOFFICE_CONFIG)')
    .option('--json', 'print one line of JSON when it is ready')
}

const nameOf = (flags: string): string => camelCase(flags.replace(/^--/, '').replace(/ .*$/, ''))
