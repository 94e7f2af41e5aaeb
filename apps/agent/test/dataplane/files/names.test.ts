import { execFileSync } from 'node:child_process'
import { access } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { refused } from '../../support/refused.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start({ profile: { max_upload_bytes: 64 * 1024 * 1024 } })
})
afterAll(() => dp[Symbol.asyncDispose]())

/** The bytes ff fe, and `café` as latin-1. */
const RAW = '\u{10feff}\u{10fefe}'
const LATIN = 'caf\u{10fee9}'

const query = (fields: Record<string, string>): string => new URLSearchParams(fields).toString()

const list = async (path: string): Promise<string[]> => {
  const { files } = (await (await dp.fetch(`/files?${query({ path, type: 'any' })}`)).json()) as { files: { path: string }[] }
  return files.map((file) => file.path)
}

/** What is there as the shell has it, byte for byte. */
const found = async (directory: string): Promise<string> => {
  const { stdout } = await dp.exec({
    command: `cd '${directory}' && find . -mindepth 1 -printf '%p %y %l\\n' | LC_ALL=C sort | od -An -v -tx1`,
  })
  return String(stdout)
}

const archiveOf = async (path: string): Promise<Uint8Array<ArrayBuffer>> =>
  new Uint8Array(await (await dp.download(path, {}, { archive: 'tar' })).arrayBuffer())

describe('a name that is not UTF-8', { tags: ['3.8'] }, () => {
  test('is listed, and taken by every call', { timeout: 120_000 }, async () => {
    await dp.exec({
      command: `mkdir -p calls/$(printf '\\377\\376') && cd calls && echo one > $(printf 'caf\\351') && echo two > $(printf '\\377\\376/caf\\351')`,
    })
    expect(await list('calls')).toEqual([`calls/${LATIN}`, `calls/${RAW}`, `calls/${RAW}/${LATIN}`])
    expect(await list(`calls/${RAW}`)).toEqual([`calls/${RAW}/${LATIN}`])
    const stat = await dp.fetch(`/files/stat?${query({ path: `calls/${LATIN}` })}`)
    expect(await stat.json()).toMatchObject({ path: `calls/${LATIN}`, type: 'file', size: 4 })
    expect(await (await dp.download(`calls/${RAW}/${LATIN}`)).text()).toBe('two\n')

    expect(await (await dp.upload(`calls/${RAW}/${LATIN}`, 'new\n')).json()).toMatchObject({ created: false })
    expect(await (await dp.upload(`calls/${RAW}/\u{10fe80}`, 'made\n')).json()).toMatchObject({ created: true })
    expect((await dp.post('/files/mkdir', { path: 'calls/\u{10fe81}/\u{10fe82}' })).status).toBe(200)
    expect((await dp.post('/files/move', { from: `calls/${LATIN}`, to: 'calls/\u{10fe81}/\u{10fe83}' })).status).toBe(200)
    const { stdout } = await dp.exec({
      command: `cat $(printf '\\377\\376/caf\\351') $(printf '\\377\\376/\\200') $(printf '\\201/\\203'); test -d $(printf '\\201/\\202') && echo made`,
      cwd: 'calls',
    })
    expect(stdout).toBe('new\nmade\none\nmade\n')
    expect(await dp.exec({ command: `cat $(printf '\\203')`, cwd: 'calls/\u{10fe81}' })).toMatchObject({ stdout: 'one\n' })

    for (const path of [RAW, '\u{10fe81}'])
      expect((await dp.fetch(`/files?${query({ path: `calls/${path}`, recursive: 'true' })}`, { method: 'DELETE' })).status).toBe(204)
    expect(await list('calls')).toEqual([])
  })

  test('may be as long as the kernel takes it', { timeout: 120_000 }, async () => {
    const name = Array.from({ length: 8 }, () => '\u{10feff}'.repeat(255)).join('/')
    expect((await dp.post('/files/mkdir', { path: `long/${name}` })).status).toBe(200)
    expect((await list('long')).at(-1)).toBe(`long/${name}`)
    expect(await refused(await dp.post('/files/mkdir', { path: `long/${name}/${name}/x` }))).toEqual([400, 'INVALID_PATH'])
  })

  test('makes no way out: what stands for ASCII stays a character', { timeout: 120_000 }, async () => {
    const slash = '\u{10fe2e}\u{10fe2e}\u{10fe2f}escaped'
    expect((await dp.upload(slash, 'x')).status).toBe(200)
    await access(`${dp.sandbox.workspacePath}/${slash}`)
  })
})

describe('an archive with names that are not UTF-8', { tags: ['4-104', '4-103'] }, () => {
  test('goes down byte for byte, and up again', { timeout: 120_000 }, async () => {
    await dp.exec({
      command: [
        `mkdir -p tree/$(printf '\\377\\376')/empty && cd tree && echo one > $(printf 'caf\\351') && : > $(printf '\\377\\376/caf\\351')`,
        `ln -s $(printf '\\377\\376/caf\\351') link && ln -s /nowhere $(printf '\\351') && head -c 200000 /dev/zero > big`,
        // Names and targets beyond the fields of a header: of 100 bytes and one more, and of many.
        `long=$(printf '\\377%.0s' $(seq 1 200)) && mkdir $long && echo deep > $long/$long && ln -s $long/$long to-long`,
        `echo n > $(printf 'n%.0s' $(seq 1 100)) && echo m > $(printf 'm%.0s' $(seq 1 101))`,
        `mkdir $(printf 'd%.0s' $(seq 1 100)) && ln -s $(printf 't%.0s' $(seq 1 100)) l100 && ln -s $(printf 't%.0s' $(seq 1 101)) l101`,
        `echo é > é`,
      ].join(' && '),
    })
    const bytes = await archiveOf('tree')
    expect((await dp.upload('again', bytes, { archive: 'tar' })).status).toBe(200)
    expect(await found('again')).toBe(await found('tree'))
    expect(await dp.exec({ command: 'diff -r --no-dereference tree again && echo same' })).toMatchObject({ stdout: 'same\n' })
    expect(await dp.exec({ command: `cat again/$(printf 'caf\\351') again/to-long again/é` })).toMatchObject({ stdout: 'one\ndeep\né\n' })

    // Another program reads it as it was meant.
    const listed = execFileSync('tar', ['--list', '--quoting-style=literal', '--show-transformed-names'], {
      input: bytes,
      encoding: 'latin1',
    })
    expect(listed.split('\n')).toEqual(expect.arrayContaining(['caf\xe9', '\xff\xfe/', '\xff\xfe/caf\xe9', '\xff\xfe/empty/', 'big']))
  })
})
