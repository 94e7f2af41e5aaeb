import { isDeepStrictEqual } from 'node:util'
import { keyThumbprint } from '@boxoffice/node-http'
import type { Jwks, RegisterAgentResponse } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { createKeySource, type KeySource } from '../auth/keys.ts'
import { createRevocationStore, type RevocationStore } from '../auth/revocations.ts'
import { createTokenBinding, type TokenBinding } from '../auth/token-binding.ts'
import { type BrokerClient, createBrokerClient } from './broker-client.ts'
import { type BrokerClock, createBrokerClock, listenForTime } from './broker-clock.ts'
import { type EnrollTokenSettings, enrollTokenFrom } from './enroll-token.ts'
import { openIdentity } from './identity.ts'
import { keepRevocations } from './revocation-file.ts'
import { loadTrust, trustWriter } from './trust.ts'

/** Whose tokens the agent believes, and by which clock; kept in the data directory, so that it serves before the broker has answered. */
export interface BrokerTrust {
  /** The client by whose responses the clock is set. */
  readonly broker: BrokerClient
  readonly clock: BrokerClock
  readonly keys: KeySource
  /** Undefined before the first registration. */
  readonly issuer: () => string | undefined
  /** Of tokens to this agent's own key. */
  readonly binding: TokenBinding
  readonly revocations: RevocationStore
  /** Takes all keys that count from now on. */
  takeKeys(jwks: Jwks): Promise<void>
  /** Takes the issuer of all tokens that count from now on. */
  takeIssuer(issuer: string): Promise<void>
  takeRegistration(registered: Pick<RegisterAgentResponse, 'issuer' | 'jwks'>): Promise<void>
  /** Resolves when what it keeps has been written. */
  close(): Promise<void>
}

export type BrokerTrustOptions = {
  dataDirectory: string
  config: { brokerUrl: string } & EnrollTokenSettings
  /** The PEM certificate by which the broker is known, where its name cannot be in one. */
  certificate: string | undefined
  /** Instead of the client that those make. */
  client: BrokerClient | undefined
  /** This machine's clock, Unix milliseconds. */
  wall: () => number
  log: Logger
}

/** Smaller changes of the clocks' difference are not worth a write. */
const OFFSET_CHANGE_MS = 1000

/** Begins with what the last registration said. */
export const openBrokerTrust = async (options: BrokerTrustOptions): Promise<BrokerTrust> => {
  const { dataDirectory, config, certificate, wall, log } = options
  const identity = await openIdentity(dataDirectory)
  const client =
    options.client ?? createBrokerClient({ brokerUrl: config.brokerUrl, enrollToken: enrollTokenFrom(config), identity, certificate })
  let trust = await loadTrust(dataDirectory)
  let savedKeys = trust?.jwks
  const save = trustWriter(dataDirectory)
  const clock = createBrokerClock({ offsetMs: trust?.clock_offset_ms ?? 0, wall })
  const broker = listenForTime(client, clock, async () => {
    if (trust === undefined || Math.abs(clock.offsetMs - trust.clock_offset_ms) < OFFSET_CHANGE_MS) return
    trust = { ...trust, clock_offset_ms: clock.offsetMs }
    await save(trust)
  })
  const keys = createKeySource({ load: () => broker.jwks() })
  if (trust !== undefined) keys.seed(trust.jwks)
  const revocations = createRevocationStore(clock.now)
  const close = await keepRevocations(dataDirectory, revocations, log)
  return {
    broker,
    clock,
    keys,
    issuer: () => trust?.issuer,
    binding: createTokenBinding(keyThumbprint(identity.publicKey)),
    revocations,
    async takeKeys(jwks) {
      keys.seed(jwks)
      // A restart must not bring a withdrawn key back, so what could not be saved is saved with the next report.
      if (trust === undefined || isDeepStrictEqual(savedKeys, jwks)) return
      trust = { ...trust, jwks }
      await save(trust).then(
        () => {
          savedKeys = jwks
        },
        (err: unknown) => log.warn({ err }, "the broker's keys could not be kept"),
      )
    },
    async takeIssuer(issuer) {
      if (trust === undefined || trust.issuer === issuer) return
      log.info({ issuer, before: trust.issuer }, 'the broker has another public URL')
      trust = { ...trust, issuer }
      await save(trust).catch((err: unknown) => log.warn({ err }, "the broker's issuer could not be kept"))
    },
    async takeRegistration({ issuer, jwks }) {
      trust = { issuer, jwks, clock_offset_ms: clock.offsetMs }
      savedKeys = undefined
      keys.seed(jwks)
      await save(trust)
    },
    close,
  }
}
