import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type Certificate = { key: string; cert: string }

/** A key and a certificate that signs itself, for some names, by `openssl`. */
export const selfSigned = (...names: string[]): Certificate => {
  const directory = mkdtempSync(join(tmpdir(), 'egress-tls-'))
  try {
    const [key, cert] = [join(directory, 'key'), join(directory, 'cert')]
    const alternatives = names.map((name) => `DNS:${name}`).join(',')
    execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert],
        ...['-days', '2', '-subj', `/CN=${names[0]}`, '-addext', `subjectAltName=${alternatives}`],
        // Rust's clients take no authority for a server.
        ...['-addext', 'basicConstraints=critical,CA:FALSE'],
      ],
      { stdio: 'pipe' },
    )
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') }
  } finally {
    rmSync(directory, { recursive: true })
  }
}
