import { Mount, Profile } from '@boxoffice/protocol'
import { z } from 'zod'
import { type AnyRoute, defineRoute } from '../../http/route.ts'

/** A profile as everybody may see it: where on the host its mounts come from is the operator's. */
const ProfileResponse = Profile.extend({ mounts: z.array(Mount.omit({ host_path: true, skip_roots: true })) })

export const profileRoutes = (profiles: ReadonlyMap<string, Profile>): AnyRoute[] => [
  defineRoute({
    method: 'GET',
    path: '/v1/profiles',
    summary: 'List the profiles that a session can be made with',
    auth: 'key',
    responses: { 200: { description: 'All profiles', schema: z.object({ profiles: z.array(ProfileResponse) }) } },
    handle: () => ({ status: 200, json: { profiles: [...profiles.values()].map((profile) => ProfileResponse.parse(profile)) } }),
  }),
]
