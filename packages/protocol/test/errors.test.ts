import { describe, expect, test } from 'vitest'
import { BoxofficeError, ERRORS, type ErrorCode, type ErrorRow, errorCodeFrom, fromUnknown } from '../src/index.ts'

const codes = Object.keys(ERRORS) as ErrorCode[]

describe('the error table', () => {
  test.each(codes)('[4-162] %s is retryable exactly when its status is 423, 429 or 503', (code) => {
    const { error } = new BoxofficeError(code, 'm').envelope('req_1')
    expect(error.retryable).toBe([423, 429, 503].includes(ERRORS[code].status))
  })

  test.each(codes)('[4-160] the envelope of %s has its four keys and the message twice', (code) => {
    expect(new BoxofficeError(code, 'what to do').envelope('req_1')).toMatchObject({
      error: { code, message: 'what to do', request_id: 'req_1' },
      detail: 'what to do',
    })
  })

  test('[C-45] both names of a code are shown, the route’s own first', () => {
    const notFound = new BoxofficeError('BINDING_NOT_FOUND', 'm')
    expect(notFound.envelope('r', 'mvp').error).toMatchObject({ code: 'SESSION_NOT_FOUND', aliases: ['BINDING_NOT_FOUND'] })
    expect(notFound.envelope('r', 'full').error).toMatchObject({ code: 'BINDING_NOT_FOUND', aliases: ['SESSION_NOT_FOUND'] })
  })

  test('[C-46] 410 is SESSION_EXPIRED in both shapes, with the alias', () => {
    for (const naming of ['mvp', 'full'] as const) {
      expect(new BoxofficeError('SESSION_EXPIRED', 'm').envelope('r', naming).error).toMatchObject({
        code: 'SESSION_EXPIRED',
        aliases: ['BINDING_EXPIRED'],
      })
    }
  })

  test('every name on the wire reads back to one code', () => {
    for (const [code, row] of Object.entries(ERRORS) as [ErrorCode, ErrorRow][]) {
      expect(errorCodeFrom(code)).toBe(code)
      if (row.mvp !== undefined) expect(errorCodeFrom(row.mvp)).toBe(code)
    }
    expect(errorCodeFrom('FROM_THE_FUTURE')).toBeUndefined()
  })

  test('[C-37] close codes above 4400 mirror the HTTP status they stand for, or are named in the contract', () => {
    expect(new BoxofficeError('TOKEN_EXPIRED', 'm').closeCode).toBe(4401)
    expect(new BoxofficeError('SESSION_RELEASED', 'm').closeCode).toBe(4410)
    expect(new BoxofficeError('SANDBOX_LOST', 'm').closeCode).toBe(4503)
    expect(new BoxofficeError('PAYLOAD_TOO_LARGE', 'm').closeCode).toBe(1009)
    expect(new BoxofficeError('INTERNAL', 'm').closeCode).toBe(1011)
  })

  test('an unknown throw becomes INTERNAL and shows nothing of itself', () => {
    const error = fromUnknown(new Error('/secret/path'))
    expect(JSON.stringify(error.envelope('r'))).not.toContain('secret')
    expect((error.cause as Error).message).toBe('/secret/path')
  })
})
