import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTHeaderParameters, SignJWT } from 'jose'
import { json, startServer } from './server.ts'

export const AUDIENCE = 'boxoffice'

/** An OIDC issuer as far as a resource server sees it: a JWKS URL, and tokens signed with its keys. */
export async function startIdentityProvider() {
  const keys = new Map<string, { privateKey: CryptoKey; jwk: JWK; alg: string }>()
  const state = { status: 200, hang: false }
  const server = await startServer((request, response) => {
    if (state.hang) return
    // As the API server of Kubernetes does.
    if (!request.headers.accept?.includes('application/jwk-set+json')) return json(response, 406, {})
    json(response, state.status, { keys: [...keys.values()].map(({ jwk }) => jwk) })
  })
  const issuer = `${server.url}/realm`

  async function addKey(kid: string, alg = 'RS256'): Promise<void> {
    const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true })
    keys.set(kid, { privateKey, alg, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } })
  }
  await addKey('k1')

  return {
    ...server,
    issuer,
    jwksUrl: `${server.url}/jwks`,
    state,
    addKey,
    removeKey: (kid: string) => keys.delete(kid),
    jwk: (kid: string): JWK => keys.get(kid)?.jwk ?? {},
    /** A good token for `claims`, or one that is wrong in the way a test says. Times in Unix seconds. */
    async token(claims: Record<string, unknown>, header: Partial<JWTHeaderParameters> = {}): Promise<string> {
      const { privateKey, alg } = keys.get(header.kid ?? 'k1') ?? [...keys.values()][0] ?? missing()
      const now = Math.floor(Date.now() / 1000)
      return new SignJWT({ iss: issuer, aud: AUDIENCE, iat: now, exp: now + 300, ...claims })
        .setProtectedHeader({ alg, kid: 'k1', ...header })
        .sign(privateKey)
    },
  }
}

const missing = (): never => {
  throw new Error('the issuer has no key')
}
