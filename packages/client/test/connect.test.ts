import { describe, expect, test } from 'vitest'
import { connect } from '../src/index.ts'

const NOBODY = 'http://127.0.0.1:9'

describe('a credential that is missing', () => {
  const given: [string, unknown][] = [
    ['an API key that is undefined', { apiKey: undefined }],
    ['one that is null', { apiKey: null }],
    ['one that is empty', { apiKey: '' }],
    ['no options at all', undefined],
    ['options without one', {}],
  ]
  for (const [what, options] of given) {
    test(`${what}: connect says so, and nothing is sent`, () => {
      expect(() => connect(NOBODY, options as never)).toThrow(
        expect.objectContaining({
          code: 'INVALID_REQUEST',
          message: expect.stringMatching(/^apiKey: is missing \(.+BOXOFFICE_API_KEY\?$/),
        }),
      )
    })
  }

  for (const token of [undefined, '', () => '', () => undefined]) {
    test(`a token that is ${JSON.stringify(token) ?? String(token)}: the first call says so`, async () => {
      let sent = 0
      const fetch = () => Promise.reject(new Error(`sent ${++sent}`))
      const client = connect(NOBODY, { token: token as never, fetch })
      await expect(client.session('t')).rejects.toMatchObject({
        code: 'INVALID_REQUEST',
        message: expect.stringMatching(/^token: is missing/),
      })
      expect(sent).toBe(0)
    })
  }
})
