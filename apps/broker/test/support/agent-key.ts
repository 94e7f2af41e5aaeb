import { generateKeyPairSync, sign } from 'node:crypto'
import { AgentChallenge, type RegisterAgentRequest, registrationStatement } from '@boxoffice/protocol'

type Key = { publicKey: string; sign: (text: string) => string }

/** A key as an install has one. */
export const newAgentKey = (): Key => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const { x = '' } = publicKey.export({ format: 'jwk' })
  return { publicKey: x, sign: (text) => sign(null, Buffer.from(text), privateKey).toString('base64url') }
}

/** What a registration has to sign. */
export const askChallenge = async (brokerUrl: string, enrollToken: string): Promise<AgentChallenge> => {
  const response = await fetch(`${brokerUrl}/v1/agents/challenge`, { method: 'POST', headers: { authorization: `Bearer ${enrollToken}` } })
  return AgentChallenge.parse(await response.json())
}

export const proofBy = (key: Key, { issuer, nonce }: AgentChallenge, request: RegisterAgentRequest): RegisterAgentRequest['proof'] => ({
  public_key: key.publicKey,
  nonce,
  signature: key.sign(registrationStatement(issuer, request, { public_key: key.publicKey, nonce })),
})

/** A registration without a proof. */
export const registrationOf = (fields: Partial<RegisterAgentRequest> & { install_id: string }): RegisterAgentRequest => ({
  instance_id: '0123456789ab',
  public_url: 'http://127.0.0.1:9',
  control_url: 'http://127.0.0.1:9',
  relay: 'auto',
  provider: { name: 'fake', isolation: 'none', available: true, reason: null, suspend: [] },
  sandboxes: [],
  clock: new Date().toISOString(),
  version: '0.0.0',
  ...fields,
})
