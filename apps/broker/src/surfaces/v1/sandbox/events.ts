import { BoxofficeError } from '@boxoffice/protocol'
import { z } from 'zod'
import { isLive } from '../../../domain/session.ts'
import type { EventFeed } from '../../../events/event-feed.ts'
import { EventStream } from '../../../events/event-stream.ts'
import { type AnyRoute, defineRoute } from '../../../http/route.ts'
import type { SessionService } from '../../../sessions/service.ts'
import type { EndingStore, EventStore } from '../../../store/session-store.ts'

export type EventRouteOptions = {
  sessions: SessionService
  store: EventStore
  endings: EndingStore
  feed: EventFeed
  /** A comment this often while nothing happens; also how often the caller's right to read on is checked. */
  pingMs: number
  /** How long a reader may take nothing. */
  stallMs: number
}

/** `GET …/sessions/{id}/events` (contract 2.4). */
export const eventRoutes = ({ sessions, store, endings, feed, pingMs, stallMs }: EventRouteOptions): AnyRoute[] => [
  defineRoute({
    method: 'GET',
    path: '/v1/sandbox/sessions/:id/events',
    summary: 'Follow a session as server-sent events: state, wake, exec.exit, process.exit, lease, released',
    auth: 'key',
    headers: { 'Last-Event-ID': 'Go on after this event; without it the stream begins with the oldest one that is kept' },
    query: z.object({ last_event_id: z.string().max(64).optional() }),
    responses: {
      200: { description: 'Ends with the session; a comment each 15 s', contentType: 'text/event-stream' },
      204: { description: 'The session has ended, and the caller has had every event of it' },
    },
    async handle({ principal, id, query, header, reauthenticate }) {
      const asked = header('last-event-id') ?? query.last_event_id
      const given = asked === undefined || asked === '' ? null : eventId(asked)
      const session = await sessions.follow(principal, id)
      // Asked before the last id: once nothing is pending, the last event is there.
      const ended = !isLive(session) && !(await endings.isPending(id))
      const last = await store.last(id)
      // An id that this session has not reached is of another one, or of a database that was restored.
      const after = given === null ? null : Math.min(given, last)
      if (ended && after !== null && after === last) return { status: 204 }
      return {
        status: 200,
        headers: { 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' },
        stream: (drop) =>
          EventStream.open({
            store,
            feed,
            sessionId: id,
            after,
            drop,
            pingMs,
            stallMs,
            principal: `${principal.tenant}/${principal.id}`,
            ended,
            admit: async () => sessions.follow(await reauthenticate(), id),
          }),
      }
    },
  }),
]

function eventId(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new BoxofficeError('INVALID_REQUEST', 'Last-Event-ID: must be the id of an event of this session, a whole number')
}
