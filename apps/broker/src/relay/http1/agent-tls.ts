import { X509Certificate } from 'node:crypto'
import { checkServerIdentity, createSecureContext, getCACertificates, type PeerCertificate, type SecureContext } from 'node:tls'

/** How the certificates of agents are checked, as options of a TLS connection; undefined: as Node does. */
export type AgentTls =
  | { secureContext: SecureContext; checkServerIdentity(host: string, peer: PeerCertificate): Error | undefined }
  | undefined

/**
 * For the broker of `boxoffice up`: it reaches its agent by a loopback address, which is in no certificate, and knows that agent by
 * `certificate` itself (PEM). Every other certificate is checked as ever. Throws for what is no certificate.
 */
export function trustOwnAgent(certificate: string): AgentTls {
  const own = new X509Certificate(certificate)
  return {
    // Made once: reading all authorities takes milliseconds.
    secureContext: createSecureContext({ ca: [...getCACertificates('default'), certificate], allowPartialTrustChain: true }),
    checkServerIdentity: (host, peer) => (peer.raw.equals(own.raw) ? undefined : checkServerIdentity(host, peer)),
  }
}
