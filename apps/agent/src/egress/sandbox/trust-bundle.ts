import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemAuthorities } from '../tls/open-tls.ts'

const NAME = 'ca-bundle.pem'
/** Where programs of a sandbox find it: beside the socket of its supervisor, which they cannot write to. */
export const TRUST_BUNDLE = `/.boxoffice/link/${NAME}`

/** Writes what programs of a sandbox trust: what this machine does, `more` that its agent does, and the authority of the sandbox. */
export const writeTrustBundle = async (linkDirectory: string, certificate: string, more: readonly string[] = []): Promise<void> => {
  await writeFile(join(linkDirectory, NAME), `${system()}${more.map(line).join('')}${certificate}`, { mode: 0o644 })
}

let joined: string | undefined

/** 200 KB of text that many sandboxes have in common. */
const system = (): string => {
  joined ??= systemAuthorities().map(line).join('')
  return joined
}

const line = (authority: string): string => `${authority.trim()}\n`
