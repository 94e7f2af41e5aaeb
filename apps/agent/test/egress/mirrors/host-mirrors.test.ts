import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readHostMirrors } from '../../../src/egress/mirrors/host-mirrors.ts'

/** The mirrors of a machine with these variables and files of its home. */
const read = async (env: Record<string, string>, files: Record<string, string> = {}) => {
  const home = await mkdtemp(join(tmpdir(), 'mirrors-'))
  onTestFinished(() => rm(home, { recursive: true }))
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(home, path)), { recursive: true })
    await writeFile(join(home, path), text)
  }
  const leftOut: string[] = []
  const mirrors = readHostMirrors({
    env,
    home,
    execPath: join(home, 'bin/node'),
    etc: join(home, 'all-users'),
    onLeftOut: (client, why) => leftOut.push(`${client}: ${why}`),
  })
  return { mirrors, leftOut }
}

test('a machine whose clients have no mirrors has none', async () => {
  expect(await read({ PATH: '/bin', GOPROXY: 'off' })).toEqual({ mirrors: [], leftOut: [] })
})

test('mirrors come from variables, which the clients read first', async () => {
  const { mirrors } = await read(
    {
      PIP_INDEX_URL: 'https://pip.example/simple',
      npm_config_registry: 'http://npm.example:4873/',
      GOPROXY: 'https://go.example|direct',
      GONOSUMDB: '*',
    },
    { '.config/pip/pip.conf': '[global]\nindex-url = https://other.example/simple\n' },
  )
  expect(mirrors).toEqual([
    { host: 'pip.example', port: 443, variables: { PIP_INDEX_URL: 'https://pip.example/simple' } },
    { host: 'pip.example', port: 443, variables: { UV_DEFAULT_INDEX: 'https://pip.example/simple' } },
    { host: 'npm.example', port: 4873, variables: { NPM_CONFIG_REGISTRY: 'http://npm.example:4873/' } },
    { host: 'go.example', port: 443, variables: { GOPROXY: 'https://go.example|direct', GONOSUMDB: '*' } },
  ])
})

test('and from files, of which the later ones count', async () => {
  const { mirrors } = await read(
    {},
    {
      '.pip/pip.conf': '[global]\nindex-url = https://old.example/simple\n',
      '.config/pip/pip.conf':
        '[global]\nindex_url = http://192.0.2.7:3141/root/simple\nextra-index-url = https://a.example/simple https://b.example:8443/simple\ntrusted-host = 192.0.2.7\n',
      '.npmrc': 'registry=https://npm.example/\n//npm.example/:always-auth=false\n',
      'etc/npmrc': 'registry=https://global.example/\n',
      '.config/go/env': 'GOPROXY=https://go.example,direct\nGOFLAGS=-mod=mod\n',
    },
  )
  expect(mirrors.map(({ host, port }) => `${host}:${port}`)).toEqual([
    ...['192.0.2.7:3141', 'a.example:443', 'b.example:8443', '192.0.2.7:3141', 'npm.example:443', 'go.example:443'],
  ])
  expect(mirrors[0]?.variables).toEqual({ PIP_INDEX_URL: 'http://192.0.2.7:3141/root/simple', PIP_TRUSTED_HOST: '192.0.2.7' })
})

test('a value of pip goes on in the lines that begin further in', async () => {
  const conf = `[global]
  # the company's
  index-url = https://first.example/simple
  extra-index-url =
      https://a.example/simple
      # not this one: https://no.example/simple
      https://b.example:8443/simple
  timeout = 60
[install]
trusted-host :
  a.example
`
  const { mirrors } = await read({}, { '.config/pip/pip.conf': conf })
  expect(mirrors.map(({ host, port }) => `${host}:${port}`)).toEqual([
    'first.example:443',
    'a.example:443',
    'b.example:8443',
    'first.example:443',
  ])
  expect(mirrors[1]?.variables).toEqual({
    PIP_EXTRA_INDEX_URL: 'https://a.example/simple https://b.example:8443/simple',
    PIP_TRUSTED_HOST: 'a.example',
  })
})

test('a setting that is empty is none, and hides no other', async () => {
  const empty = { PIP_INDEX_URL: '', UV_DEFAULT_INDEX: '', NPM_CONFIG_REGISTRY: '', GOPROXY: '' }
  const { mirrors } = await read(empty, {
    '.config/pip/pip.conf': '[global]\nindex-url = https://pip.example/simple\n',
    '.npmrc': 'registry=https://npm.example/\n',
    '.config/go/env': 'GOPROXY=https://go.example\n',
  })
  expect(mirrors.map(({ host }) => host)).toEqual(['pip.example', 'pip.example', 'npm.example', 'go.example'])
})

test('further indexes of uv may have names', async () => {
  const { mirrors } = await read({ UV_INDEX: 'torch=https://torch.example/whl https://more.example:8443/simple' })
  expect(mirrors.map(({ host, port, variables }) => [`${host}:${port}`, Object.keys(variables)])).toEqual([
    ['torch.example:443', ['UV_INDEX']],
    ['more.example:8443', ['UV_INDEX']],
  ])
})

test('a file of settings that a variable names takes the place of the user’s, and the null device that of all', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'mirrors-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const named = join(directory, 'pip.conf')
  await writeFile(named, '[global]\nindex-url = https://named.example/simple\n')
  const files = {
    '.config/pip/pip.conf': '[global]\nindex-url = https://user.example/simple\nextra-index-url = https://extra.example/simple\n',
    'all-users/pip.conf': '[global]\ntrusted-host = all.example\n',
  }
  const hosts = async (path: string) => (await read({ PIP_CONFIG_FILE: path }, files)).mirrors.map(({ host }) => host)
  expect(await hosts(named)).toEqual(['named.example', 'named.example'])
  expect(await hosts(join(directory, 'none'))).toEqual(['user.example', 'extra.example', 'user.example'])
  expect(await hosts('/dev/null')).toEqual([])
})

test.each([
  'https://ok.example/simple "https://u:hunter2@b.example/simple"',
  'https://ok.example/simple;https://u:hunter2@b.example/simple',
  'https://ok.example,u:hunter2@b.example',
  'https://ok.example/simple?token=hunter2',
])('%s is left out as a whole', async (text) => {
  const { mirrors, leftOut } = await read({ PIP_INDEX_URL: text, UV_DEFAULT_INDEX: text, NPM_CONFIG_REGISTRY: text, GOPROXY: text })
  expect(mirrors).toEqual([])
  expect(leftOut).toHaveLength(4)
  expect(leftOut.join()).not.toContain('hunter2')
})

test('what has credentials, or is on the loopback of this machine, is left out, and its URL is not told', async () => {
  const { mirrors, leftOut } = await read({
    PIP_INDEX_URL: 'https://robot:hunter2@pip.example/simple',
    NPM_CONFIG_REGISTRY: 'http://127.0.0.1:4873',
    GOPROXY: 'https://token@go.example,direct',
  })
  expect(mirrors).toEqual([])
  expect(leftOut).toEqual([
    expect.stringMatching(/^pip: .*credentials/),
    expect.stringMatching(/^uv: /),
    expect.stringMatching(/^npm: .*loopback/),
    expect.stringMatching(/^go: /),
  ])
  expect(leftOut.join()).not.toContain('hunter2')
})
