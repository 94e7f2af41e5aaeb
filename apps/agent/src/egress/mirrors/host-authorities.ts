import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type ClientSettingsOptions, npmSettings, pipSettings } from './client-settings.ts'

export type HostAuthoritiesOptions = ClientSettingsOptions & {
  /** PEM certificates that are trusted already. */
  known: readonly string[]
  /** Hears of a file that cannot be read, or has something else than certificates. */
  onLeftOut: (file: string) => void
}

/** Variables that name a file of authorities to a package client, beside those of pip's and npm's settings. */
const VARIABLES = ['REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE', 'SSL_CERT_FILE', 'NODE_EXTRA_CA_CERTS', 'GIT_SSL_CAINFO', 'CARGO_HTTP_CAINFO']
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/**
 * Authorities that package clients of this machine trust by their variables and files, without those that are known. PEM, each once. A
 * mirror often has an authority of its own.
 */
export const readHostAuthorities = ({ known, onLeftOut, ...options }: HostAuthoritiesOptions): string[] => {
  const named = [pipSettings(options).cert, npmSettings(options).cafile, ...VARIABLES.map((name) => options.env[name])]
  const found = new Set<string>()
  for (const file of new Set(named)) {
    if (!file) continue
    try {
      for (const [pem] of readFileSync(file, 'utf8').matchAll(CERTIFICATE)) found.add(new X509Certificate(pem).toString().trim())
    } catch {
      onLeftOut(file)
    }
  }
  for (const pem of known) found.delete(pem.trim())
  return [...found]
}
