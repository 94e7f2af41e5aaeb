import { expect, test } from 'vitest'
import type { NewSessionEvent } from '../../../../../src/domain/session-event.ts'
import type { ExposedPortRecord, PreviewCode } from '../../../../../src/store/preview-store.ts'
import type { Stores } from '../../exam.ts'
import { active, against, audited, auditOf, change, events, fresh, RELEASED, together, UNWRITABLE } from '../../parts.ts'

const exposedEvent = (port: number): NewSessionEvent => ({
  ts: 100,
  type: 'port.exposed',
  data: { port, access: 'private', expires_at: null },
})

const newCode = (fields: Partial<PreviewCode> = {}): PreviewCode => ({
  ...{ hash: fresh('hash'), label: fresh('label'), actor: 'ann', createdAt: 90, expiresAt: 8e15 },
  ...fields,
})

export function previewCases(at: Stores): void {
  const newPort = async (fields: Partial<ExposedPortRecord> = {}): Promise<ExposedPortRecord> => ({
    label: fresh('label'),
    tenant: fresh('tenant'),
    sessionId: fields.sessionId ?? (await active(at.one)).id,
    incarnation: 1,
    port: 5173,
    access: 'private',
    host: 'localhost',
    embedOrigins: ['https://app.example'],
    createdBy: 'ann',
    createdAt: 100,
    expiresAt: null,
    ...fields,
  })
  const written = (sessionId: string) => ({ audit: [audited(sessionId)], events: [exposedEvent(5173)] })
  const expose = async (fields: Partial<ExposedPortRecord> = {}, most = 64) => {
    const wanted = await newPort(fields)
    return { wanted, ...(await at.one.previews.expose(wanted, most, written(wanted.sessionId))) }
  }

  test('an exposed port reads as it was made, by its label and its session, with its audit entry and its event', async () => {
    const { wanted } = await expose({ access: 'public', host: 'preserve', expiresAt: 8e15 })
    expect(await at.other.previews.byLabel(wanted.label)).toEqual(wanted)
    expect(await at.other.previews.ofSession(wanted.sessionId)).toEqual([wanted])
    expect(await at.other.previews.byLabel(fresh('label'))).toBeUndefined()
    expect(await auditOf(at.other, wanted.sessionId)).toHaveLength(1)
    expect((await events(at.other, wanted.sessionId)).types).toContain('port.exposed')
  })

  test('a port that is exposed once more keeps its label and takes the new terms', async () => {
    const { wanted } = await expose()
    const again = await newPort({
      sessionId: wanted.sessionId,
      access: 'tenant',
      embedOrigins: [],
      createdBy: 'bob',
      expiresAt: 7,
      createdAt: 200,
    })
    const outcome = await at.other.previews.expose(again, 1, written(wanted.sessionId))
    const kept = { ...again, label: wanted.label, createdAt: 100, tenant: wanted.tenant }
    expect(outcome).toEqual({ outcome: 'exposed', port: kept })
    expect(await at.one.previews.byLabel(again.label)).toBeUndefined()
    expect(await at.one.previews.ofSession(wanted.sessionId)).toEqual([kept])
  })

  test('another incarnation forgets what the earlier one exposed', async () => {
    const { wanted } = await expose()
    const next = await expose({ sessionId: wanted.sessionId, incarnation: 2, port: 8000 }, 1)
    expect(next.outcome).toBe('exposed')
    expect(await at.other.previews.byLabel(wanted.label)).toBeUndefined()
    expect(await at.other.previews.ofSession(wanted.sessionId)).toEqual([next.wanted])
  })

  test('a session has so many at most, also where many are exposed at once', async () => {
    const { id: sessionId } = await active(at.one)
    const outcomes = await together(at, 12, async (store, n) =>
      store.previews.expose(await newPort({ sessionId, port: 1000 + n }), 5, written(sessionId)),
    )
    expect(outcomes.filter(({ outcome }) => outcome === 'exposed')).toHaveLength(5)
    expect(outcomes.filter(({ outcome }) => outcome === 'full')).toHaveLength(7)
    expect(await at.one.previews.ofSession(sessionId)).toHaveLength(5)
    expect(await auditOf(at.one, sessionId)).toHaveLength(5)
  })

  test('a withdrawn port is gone, once', async () => {
    const { wanted } = await expose()
    const withdraw = (store = at.other) => store.previews.withdraw(wanted.sessionId, 5173, written(wanted.sessionId))
    const outcomes = await together(at, 4, withdraw)
    expect(outcomes.filter((done) => done)).toHaveLength(1)
    expect(await at.one.previews.byLabel(wanted.label)).toBeUndefined()
    expect(await auditOf(at.one, wanted.sessionId)).toHaveLength(2)
  })

  test('nothing stays exposed of a session that ends at the same time', async () => {
    await against(at, async (mine, theirs) => {
      const { id: sessionId } = await active(mine)
      const port = await newPort({ sessionId })
      await Promise.all([
        mine.previews.expose(port, 64, written(sessionId)),
        change(theirs, sessionId, RELEASED).catch(() => change(theirs, sessionId, RELEASED)),
      ])
      expect(await theirs.previews.ofSession(sessionId)).toEqual([])
      expect(await mine.previews.expose(port, 64, written(sessionId))).toEqual({ outcome: 'ended' })
    })
  })

  test('a change whose audit entry cannot be written is not made', async () => {
    const wanted = await newPort()
    await expect(at.one.previews.expose(wanted, 64, { audit: [UNWRITABLE], events: [] })).rejects.toThrow()
    expect(await at.one.previews.ofSession(wanted.sessionId)).toEqual([])
  })

  test('a code is taken once, by its own label, until it is too old', async () => {
    const code = newCode()
    await at.one.previews.addCode(code, 100)
    expect(await at.other.previews.takeCode(code.hash, fresh('label'), 100)).toBeUndefined()
    const taken = await together(at, 8, (store) => store.previews.takeCode(code.hash, code.label, 100))
    expect(taken.filter((one) => one !== undefined)).toEqual([{ actor: 'ann', createdAt: 90 }])
    const late = newCode({ expiresAt: 200 })
    await at.one.previews.addCode(late, 100)
    expect(await at.one.previews.takeCode(late.hash, late.label, 200)).toBeUndefined()
    await at.one.previews.addCode(newCode(), 300)
    expect(await at.one.previews.takeCode(late.hash, late.label, 100)).toBeUndefined()
  })
}
