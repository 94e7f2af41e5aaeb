import { describe, expect, test } from 'vitest'
import { MODEL_OUTPUT_CHARACTERS, truncateForModel, withClipNotice } from '../src/model-output.ts'

describe('output for models', () => {
  test('[2-11] keeps both ends, 60 to 40, with the notice between them inside the limit', () => {
    const long = `HEAD_START|${'x'.repeat(500)}|TAIL_END`
    const { text, truncated } = truncateForModel(long, 100)
    expect(truncated).toBe(true)
    expect(text).toMatch(/^HEAD_START\|x+\n\n\.\.\. \[\d+ characters truncated\] \.\.\.\n\nx+\|TAIL_END$/)
    expect(text.length).toBeLessThanOrEqual(100)
    const [head = '', tail = ''] = text.split(/\n\n\.\.\. \[\d+ characters truncated\] \.\.\.\n\n/)
    const available = 100 - '\n\n... [519 characters truncated] ...\n\n'.length
    expect(head).toHaveLength(Math.floor(available * 0.6))
    expect(tail).toHaveLength(available - head.length)
    expect(text).toContain(`[${long.length - head.length - tail.length} characters truncated]`)
  })

  test('[2-11] counts characters, and cuts none in half', () => {
    const { text } = truncateForModel('😀'.repeat(1000), 100)
    expect(Array.from(text).length).toBeLessThanOrEqual(100)
    expect(text.isWellFormed()).toBe(true)
    expect(truncateForModel('😀'.repeat(100), 100)).toEqual({ text: '😀'.repeat(100), truncated: false })
  })

  test('[2-11] a limit without room for the notice leaves the head alone', () => {
    expect(truncateForModel('abcdefghij', 5)).toEqual({ text: 'abcde', truncated: true })
  })

  test('[2-13] leaves 4000 characters alone and cuts 4001 to at most 4000', () => {
    expect(MODEL_OUTPUT_CHARACTERS).toBe(4000)
    expect(truncateForModel('x'.repeat(4000))).toEqual({ text: 'x'.repeat(4000), truncated: false })
    const { text, truncated } = truncateForModel('x'.repeat(4001))
    expect([truncated, text.length <= 4000, text.length > 3990]).toEqual([true, true, true])
  })

  test('[2-14] raw output beyond 1 MiB ends with a notice that says how much is not there', () => {
    expect(withClipNotice('abc', { bytes: 3, truncated: false })).toBe('abc')
    expect(withClipNotice('abc', { bytes: 1_048_600, truncated: true })).toBe(
      'abc\n... [raw output clipped at 1048576 bytes, 24 bytes discarded]',
    )
  })
})
