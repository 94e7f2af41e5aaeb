import { BoxofficeError, type EgressLists, EgressPolicy, LIMITS, withoutLists } from '@boxoffice/protocol'

/** The policy with the hosts of its lists in their places, as agents take it. Throws INVALID_REQUEST for a list that is not there. */
export const resolveLists = (policy: EgressPolicy, lists: EgressLists): EgressPolicy => {
  const resolved = withoutLists(policy, lists, (name) => {
    const names = Object.keys(lists)
    const there = names.length === 0 ? 'there are none' : `there are ${names.map((one) => `@${one}`).join(', ')}`
    throw new BoxofficeError('INVALID_REQUEST', `egress: there is no list @${name} (setting egress_lists); ${there}`)
  })
  // Lists may make it longer than a policy can be.
  if (resolved !== policy && !EgressPolicy.safeParse(resolved).success)
    throw new BoxofficeError('INVALID_REQUEST', 'egress: with its lists the policy has too many hosts: 1,024 at most, and 64 rules')
  if (Buffer.byteLength(JSON.stringify(resolved)) > LIMITS.policyBytes)
    throw new BoxofficeError('INVALID_REQUEST', `egress: the policy has more than ${LIMITS.policyBytes} bytes as JSON`)
  return resolved
}
