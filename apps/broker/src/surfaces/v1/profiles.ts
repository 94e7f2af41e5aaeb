import { Profile } from '@boxoffice/protocol'
import { z } from 'zod'
import { type AnyRoute, defineRoute } from '../../http/route.ts'

/** Profiles hold names and limits only, no host paths. */
export const profileRoutes = (profiles: ReadonlyMap<string, Profile>): AnyRoute[] => [
  defineRoute({
    method: 'GET',
    path: '/v1/profiles',
    summary: 'List the profiles that a session can be made with',
    auth: 'key',
    responses: { 200: { description: 'All profiles', schema: z.object({ profiles: z.array(Profile) }) } },
    handle: () => ({ status: 200, json: { profiles: [...profiles.values()] } }),
  }),
]
