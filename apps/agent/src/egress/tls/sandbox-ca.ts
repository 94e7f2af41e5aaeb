import 'reflect-metadata'
import { KeyObject as Key, type KeyObject, randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509'

/** The authority of one sandbox. Its key is in memory alone, and only this sandbox knows its certificate. */
export interface SandboxCa {
  /** PEM. */
  readonly certificate: string
  /** What a server of that host shows, made once for each: key and certificate. `host`: a name, or an address without brackets. */
  contextFor(host: string): Promise<SecureContext>
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const HOUR = 3600_000
const DAY = 24 * HOUR
/** Clients take no longer ones. A sandbox that lives longer gets another with its next connection. */
const LEAF_FOR = 90 * DAY
const RENEW_BEFORE = 10 * DAY
const CA_FOR = 3650 * DAY
const HOSTS = 500

/** Makes an authority that strict clients take: identifiers of its key, and nothing but signing. */
export const createSandboxCa = async (sandboxId: string): Promise<SandboxCa> => {
  const [caKeys, leafKeys] = await Promise.all([makeKeys(), makeKeys()])
  const name = `CN=Boxoffice sandbox ${sandboxId}`
  const authority = await X509CertificateGenerator.createSelfSigned({
    ...{ serialNumber: serial(), name, ...validFor(CA_FOR), keys: caKeys, signingAlgorithm: ALGORITHM },
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(caKeys.publicKey),
    ],
  })
  const key = pemOf(leafKeys.privateKey)
  const made = new BoundedCache<string, { context: Promise<SecureContext>; until: number }>(HOSTS)

  const make = async (host: string): Promise<SecureContext> => {
    const leaf = await X509CertificateGenerator.create({
      ...{ serialNumber: serial(), subject: 'CN=Boxoffice', issuer: authority.subject, ...validFor(LEAF_FOR) },
      ...{ publicKey: leafKeys.publicKey, signingKey: caKeys.privateKey, signingAlgorithm: ALGORITHM },
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
        new SubjectAlternativeNameExtension([{ type: isIP(host) === 0 ? 'dns' : 'ip', value: host }]),
        await AuthorityKeyIdentifierExtension.create(caKeys.publicKey),
        await SubjectKeyIdentifierExtension.create(leafKeys.publicKey),
      ],
    })
    return createSecureContext({ key, cert: leaf.toString('pem'), minVersion: 'TLSv1.2' })
  }
  return {
    certificate: `${authority.toString('pem')}\n`,
    contextFor(host) {
      const known = made.get(host)
      if (known !== undefined && known.until > Date.now()) return known.context
      const context = make(host)
      made.set(host, { context, until: Date.now() + LEAF_FOR - RENEW_BEFORE })
      return context
    },
  }
}

const makeKeys = (): Promise<CryptoKeyPair> => crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']) as Promise<CryptoKeyPair>

/** Positive, as the highest bit would make it negative. */
const serial = (): string => `01${randomBytes(15).toString('hex')}`

const validFor = (ms: number): { notBefore: Date; notAfter: Date } => ({
  // Clocks of sandboxes are the host's, but not those of every machine that tests them.
  notBefore: new Date(Date.now() - HOUR),
  notAfter: new Date(Date.now() - HOUR + ms),
})

const pemOf = (key: CryptoKey): string => (Key.from(key) as KeyObject).export({ type: 'pkcs8', format: 'pem' }).toString()
