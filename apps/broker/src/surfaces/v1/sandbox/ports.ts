import {
  BoxofficeError,
  ExposedPort,
  ExposePortRequest,
  ListExposedPortsResponse,
  PortLinkRequest,
  PortLinkResponse,
  parsePort,
} from '@boxoffice/protocol'
import { type AnyRoute, defineRoute } from '../../../http/route.ts'
import type { Previews } from '../../../previews/previews.ts'

const PORTS = '/v1/sandbox/sessions/:id/ports'

/** Ports of a session's sandbox that have a host of their own. */
export const portRoutes = (previews: Previews): AnyRoute[] => [
  defineRoute({
    method: 'POST',
    path: PORTS,
    summary: 'Give a port of the sandbox a host of its own, or change the terms of one that has it',
    auth: 'key',
    body: ExposePortRequest,
    responses: { 200: { description: 'The port, and where it is', schema: ExposedPort } },
    async handle({ principal, id, body, origin }) {
      return { status: 200, json: await previews.expose(principal, id, body, origin) }
    },
  }),
  defineRoute({
    method: 'GET',
    path: PORTS,
    summary: 'List the ports that have a host, and those on which somebody listens',
    auth: 'key',
    responses: { 200: { description: 'By their numbers', schema: ListExposedPortsResponse } },
    async handle({ principal, id }) {
      return { status: 200, json: await previews.list(principal, id) }
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: `${PORTS}/:port`,
    summary: 'Take the host of a port away, for good; what is open to it is cut',
    auth: 'key',
    responses: { 204: { description: 'Withdrawn' } },
    async handle({ principal, id, param, origin }) {
      await previews.withdraw(principal, id, readPort(param('port')), origin)
      return { status: 204 }
    },
  }),
  defineRoute({
    method: 'POST',
    path: `${PORTS}/:port/link`,
    summary: 'Make a link by which one browser comes in, once',
    auth: 'key',
    body: PortLinkRequest,
    responses: { 200: { description: 'The link, whose fragment has the code', schema: PortLinkResponse } },
    async handle({ principal, id, param, body, origin }) {
      const terms = { ttlSeconds: body.ttl_seconds, path: body.path }
      return { status: 200, json: await previews.link(principal, id, readPort(param('port')), terms, origin) }
    },
  }),
]

const readPort = (text: string): number => {
  const port = parsePort(text)
  if (port === undefined) throw new BoxofficeError('INVALID_REQUEST', 'port: must be a number from 9 to 65535, in decimal digits')
  return port
}
