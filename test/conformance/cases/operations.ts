import assert from 'node:assert/strict'
import { type Case, check } from '../case.ts'
import { refused } from '../expect.ts'

type OpenApi = { paths: Record<string, Record<string, unknown>> }

/** What a broker serves beside sessions (contract 1, 2.4, 2.13, 2.14), and what a relay refuses (3.11). */
export const operationCases: readonly Case[] = [
  check('2.14', 'health, readiness, description, documentation', async (t) => {
    for (const path of ['/healthz', '/readyz', '/docs']) assert.equal((await t.call('GET', path, { key: null })).status, 200)
    const { paths } = (await t.call<OpenApi>('GET', '/openapi.json', { key: null })).body
    const listed = Object.keys(paths).map((path) => path.replace(/\{\w+\}/g, '{}'))
    for (const path of [
      ...['/v1/sandbox/sessions', '/v1/sandbox/sessions/{}', '/v1/sandbox/sessions/{}/refresh', '/v1/sandbox/sessions/{}/refresh-token'],
      ...[
        '/v1/sandbox/sessions/{}/heartbeat',
        '/v1/sandbox/sessions/{}/members',
        '/v1/sandbox/sessions/{}/events',
        '/v1/profiles',
        '/v1/audit',
        '/v1/keys',
      ],
    ])
      assert.ok(listed.includes(path), `${path} is not in /openapi.json`)
  }),
  check('2.14', 'keys: shown once, never listed, refused soon after revocation; operators only', async (t) => {
    const made = await t.call<{ id: string; key: string }>('POST', '/v1/keys', {
      body: { name: 'once', principal: 'p', role: 'user', rights: [] },
    })
    assert.equal(made.status, 201)
    assert.ok(!(await t.call('GET', '/v1/keys')).text.includes(made.body.key))
    assert.equal((await t.call('GET', '/v1/sandbox/sessions', { key: made.body.key })).status, 200)
    refused(await t.call('GET', '/v1/keys', { key: made.body.key }), 403, 'FORBIDDEN')
    assert.equal((await t.call('DELETE', `/v1/keys/${made.body.id}`)).status, 204)
    const end = performance.now() + 10_000
    while ((await t.call('GET', '/v1/sandbox/sessions', { key: made.body.key })).status === 200)
      assert.ok(performance.now() < end, 'still good')
  }),
  check('2.14', 'the audit is for operators, filtered and without tokens', async (t) => {
    const { session_id, token } = await t.shared()
    const page = await t.call('GET', `/v1/audit?session_id=${session_id}&limit=10`)
    assert.equal(page.status, 200)
    assert.ok(page.text.includes(session_id) && !page.text.includes(token))
    refused(await t.call('GET', '/v1/audit', { key: await t.keyOf('A1') }), 403, 'FORBIDDEN')
  }),
  check('2.4', 'events: the states, an exit and the release, in order, and again after the last one seen', async (t) => {
    const grant = await t.ensure()
    const path = `/v1/sandbox/sessions/${grant.session_id}/events`
    await t.exec(grant, { command: 'exit 4', exec_id: 'told' })
    const following = stream(`${t.broker}${path}`, t.key)
    const exit = await following.until((event) => event.event === 'exec.exit')
    assert.equal((JSON.parse(exit.data) as { exit_code: number }).exit_code, 4)
    await t.release(grant.session_id)
    await following.until((event) => event.event === 'released')
    const ids = following.seen.map(({ id }) => Number(id))
    assert.deepEqual(
      ids,
      ids.toSorted((a, b) => a - b),
    )
    assert.equal(new Set(ids).size, ids.length)
    refused(await t.call('GET', path, { key: await t.keyOf('AX') }), 404, 'BINDING_NOT_FOUND')
  }),
  check('4-150, 4-151', 'the base URL is of the mode that was asked for', async (t) => {
    const { dataplane } = await t.shared()
    assert.equal(dataplane.http_base_url.startsWith(`${t.broker}/v1/sandbox/relay/`), t.mode === 'relay')
  }),
  check('3.11', 'a relay refuses headers that could change the target, and drops those that claim an origin', async (t) => {
    const grant = await t.ensure({ relay: 'always' })
    for (const header of ['x-sandbox-id', 'x-original-url', 'x-rewrite-url', 'e2b-sandbox-id'])
      refused(await t.dp(grant, 'POST', '/exec', { headers: { [header]: 'x' }, body: { command: 'true' } }), 400, 'INVALID_REQUEST')
    assert.equal(
      (await t.dp(grant, 'POST', '/exec', { headers: { 'x-forwarded-for': '1.2.3.4', forwarded: 'for=x' }, body: { command: 'true' } }))
        .status,
      200,
    )
  }),
  check('4-151, C-47', 'a relay lets nobody into another session', async (t) => {
    const [mine, other] = await Promise.all([t.ensure({ relay: 'always' }), t.ensure({ relay: 'always' })])
    if (mine === undefined || other === undefined) throw new Error('no sessions')
    refused(await t.dp(mine, 'POST', '/exec', { token: other.token, body: { command: 'true' } }), 403, 'FORBIDDEN')
    refused(await t.dp(mine, 'POST', '/exec', { token: null, body: { command: 'true' } }), 401, 'UNAUTHENTICATED')
    const crooked = await t.call('POST', `/v1/sandbox/relay/${mine.session_id}/v1/../../${other.session_id}/v1/exec`, {
      key: mine.token,
      body: { command: 'true' },
    })
    assert.ok(crooked.status >= 400 && crooked.status < 500, String(crooked.status))
  }),
  check('4-152', 'through a relay bodies stream both ways and sockets carry bytes', async (t) => {
    const grant = await t.ensure({ relay: 'always' })
    assert.equal(grant.dataplane.mode, 'relay')
    const socket = t.socket(grant, '/exec/ws', { binary: true })
    await socket.start({ command: 'head -c 20000000 /dev/zero | tr "\\0" x; cat >/dev/null' })
    await socket.eof()
    assert.equal((await socket.frame('exit')).stdout_bytes, 20_000_000)
    assert.equal(socket.bytes().length, 20_000_000)
    assert.equal((await socket.closed).code, 1000)
  }),
  check('relay', 'relay never gives the direct URL, always the relayed one', async (t) => {
    const [never, always] = [await t.ensure({ relay: 'never' }), await t.ensure({ relay: 'always' })]
    assert.deepEqual([never.dataplane.mode, always.dataplane.mode], ['direct', 'relay'])
    for (const grant of [never, always]) assert.equal((await t.exec(grant, 'echo ok')).body.stdout, 'ok\n')
    refused(await t.neg({ thread_id: t.thread(), mode: 'ensure', relay: 'perhaps' }), 400, 'INVALID_REQUEST')
  }),
]

type Event = { id: string; event: string; data: string }

/** A reader of server-sent events that reconnects after each one, from the last that it has seen. */
function stream(url: string, key: string): { seen: Event[]; until(found: (event: Event) => boolean): Promise<Event> } {
  const seen: Event[] = []
  return {
    seen,
    async until(found) {
      for (;;) {
        const guard = AbortSignal.timeout(60_000)
        const last = seen.at(-1)
        const response = await fetch(url, {
          signal: guard,
          headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream', ...(last && { 'last-event-id': last.id }) },
        })
        if (response.status !== 200 || response.body === null) throw new Error(`events: ${response.status} ${await response.text()}`)
        const event = await firstEvent(response.body)
        if (event === undefined) throw new Error(`the events ended: ${JSON.stringify(seen)}`)
        seen.push(event)
        if (found(event)) return event
      }
    },
  }
}

async function firstEvent(body: ReadableStream<Uint8Array>): Promise<Event | undefined> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true })
    for (const block of text.split('\n\n').slice(0, -1)) {
      const fields = Object.fromEntries(
        block.split('\n').flatMap((line) => (line.startsWith(':') ? [] : [line.split(/: ?(.*)/s).slice(0, 2)])),
      )
      if (typeof fields.data === 'string') return { id: String(fields.id), event: String(fields.event), data: fields.data }
    }
  }
  return undefined
}
