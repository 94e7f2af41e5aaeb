/** What web pages of a listed origin may do with the dataplane, at the agent and through the relay [C-69]. */
export const DATAPLANE_CORS = {
  methods: 'GET, HEAD, POST, DELETE',
  headers: 'Authorization, X-Api-Key, Content-Type, X-Request-Id, Range, If-Range, If-Match, If-None-Match',
  exposed: [
    'X-Request-Id',
    'Retry-After',
    'ETag',
    'Content-Range',
    'X-Stream-Offset',
    'X-Stream-Next-Offset',
    'X-Stream-Oldest-Offset',
    'X-Stream-Eof',
    'X-Stream-Gap',
  ].join(', '),
  preflightSeconds: 600,
} as const
