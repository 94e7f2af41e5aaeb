import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type AgentChallenge, type AgentProof, BoxofficeError, type RegisterAgentRequest, registrationStatement } from '@boxoffice/protocol'

/** The key of an install. The broker pins it at the first registration and takes no other one for that install [C-50]. */
export interface AgentIdentity {
  /** Ed25519, the `x` of its JWK. */
  readonly publicKey: string
  prove(challenge: AgentChallenge, request: RegisterAgentRequest): AgentProof
}

const NAME = 'agent-key.pem'

/** Reads the key of the data directory (Ed25519, mode 0600); makes it at the first start. */
export const openIdentity = async (directory: string): Promise<AgentIdentity> => {
  const privateKey = await keyIn(join(directory, NAME))
  const { x: publicKey = '' } = createPublicKey(privateKey).export({ format: 'jwk' })
  return {
    publicKey,
    prove(challenge, request) {
      const { nonce } = challenge
      const statement = registrationStatement(challenge.issuer, request, { public_key: publicKey, nonce })
      return { public_key: publicKey, nonce, signature: sign(null, Buffer.from(statement), privateKey).toString('base64url') }
    },
  }
}

const keyIn = async (path: string): Promise<KeyObject> => {
  let pem: string
  try {
    pem = await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    pem = generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
    await writeFile(`${path}.new`, pem, { mode: 0o600 })
    await rename(`${path}.new`, path)
  }
  try {
    return createPrivateKey(pem)
  } catch (cause) {
    // A new one would not be taken by the broker that has pinned the old one.
    throw new BoxofficeError(
      'BACKEND_UNAVAILABLE',
      `the key of this agent, ${path}, is not readable; restore it, or remove it and run: boxoffice agents rekey`,
      {
        cause,
      },
    )
  }
}
