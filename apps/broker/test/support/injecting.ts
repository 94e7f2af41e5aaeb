import { Profile } from '@boxoffice/protocol'

/** The default profile with a rule that injects these secrets: what a session may have of them. */
export const injecting = (...secrets: string[]): Profile[] => {
  const inject = secrets.map((secret, at) => ({ header: `x-secret-${at}`, secret }))
  return [Profile.parse({ name: 'default', network: 'on', egress: { rules: [{ host: 'api.example', inject }] } })]
}
