import { execFile } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { longTime, processesWith, sbsClient } from '../support/client.ts'
import { bin, ROOT, type SbsServer, startSbs } from '../support/server.ts'

type Ran = { code: number; stdout: string; stderr: string }

const run = async (file: string, args: string[], env: Record<string, string> = {}): Promise<Ran> => {
  try {
    return { code: 0, ...(await promisify(execFile)(file, args, { env: { ...process.env, ...env }, timeout: 110_000 })) }
  } catch (thrown) {
    return thrown as Ran
  }
}

const COMMANDS = ['sbs', 'session-based-sandbox']

/** Gives up root for the program that follows, on a view of the checkout that is not closed by the directories above it. */
const AS_NOBODY = `mount --bind "$0" /mnt || exit
program=/mnt/\${1#"$0"/}
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$program" "$@"`

describe('the command line', () => {
  test('[3-40, 3-44] both names are one file', () => {
    const { bin: bins } = JSON.parse(readFileSync(join(ROOT, 'apps/cli/package.json'), 'utf8'))
    expect(bins.sbs).toBe(bins['session-based-sandbox'])
    expect(existsSync(join(ROOT, 'apps/cli', bins.sbs))).toBe(true)
    for (const name of COMMANDS) expect(existsSync(realpathSync(bin(name)))).toBe(true)
  })

  test.each(COMMANDS)('[3-23, 3-41, 3-42] %s run --help tells the options and how little it isolates', async (name) => {
    const { code, stdout } = await run(bin(name), ['run', '--help'])
    expect(code).toBe(0)
    const text = stdout.replace(/\s+/g, ' ')
    expect(text).toMatch(/--host <address>.*"127\.0\.0\.1"/)
    expect(text).toMatch(/--port <port>.*8000/)
    expect(text).toContain('--allow-remote')
    expect(text).toContain('temporary directory')
    expect(text).toContain('subprocess')
    expect(text).toContain('same OS user as this server')
    expect(text).toContain('not a container')
    expect(text).toContain('no authentication')
    expect(text).toContain('SBS_STEP_TIMEOUT_SEC')
  })

  test('[3-23] so does the documentation', () => {
    for (const file of ['README.md', 'skills/sbs/SKILL.md']) {
      const text = readFileSync(join(ROOT, file), 'utf8').replace(/[*_]/g, '').replace(/\s+/g, ' ')
      expect(text).toMatch(/temporary director(y|ies)/)
      expect(text).toContain('same user as the server')
      expect(text).toContain('not a container')
    }
  })

  test.each([
    ['--port', 'eighty', 'must be a number'],
    ['--port', '70000', 'must be a number'],
    ['--color', 'red', 'unknown option'],
  ])('[3-41] %s %s is refused in one line', async (flag, value, why) => {
    const { code, stderr } = await run(bin('sbs'), ['run', flag, value])
    expect(code).toBe(1)
    expect(stderr).toContain(why)
    expect(stderr.trim().split('\n')).toHaveLength(1)
  })

  test.each(['0.0.0.0', '::', '192.0.2.1'])('[3-25] --host %s needs --allow-remote', async (host) => {
    const { code, stderr } = await run(bin('sbs'), ['run', '--port', '0', '--host', host])
    expect(code).toBe(1)
    expect(stderr).toContain('--allow-remote')
  })

  test('[3-25] with it, the listener is there for others', async () => {
    await using server = await startSbs({ args: ['run', '--port', '0', '--host', '0.0.0.0', '--allow-remote'] })
    const sbs = sbsClient(server.url.replace('0.0.0.0', '127.0.0.1'))
    expect((await sbs.bash(await sbs.create(), 'echo here')).output).toBe('here\n')
  })

  test.each([
    ['0.1', '1 s', false],
    ['7', '7 s', false],
    ['soon', '30 s', true],
  ])('[3-43] SBS_STEP_TIMEOUT_SEC=%s is read at the start: %s', async (value, seconds, warns) => {
    await using server = await startSbs({ env: { SBS_STEP_TIMEOUT_SEC: value } })
    expect(server.stdout()).toContain(`steps may take     ${seconds}`)
    expect(server.log().some(({ msg }) => msg.includes('SBS_STEP_TIMEOUT_SEC'))).toBe(warns)
  })
})

describe('at its default place', () => {
  let server: SbsServer
  beforeAll(async () => {
    // Nothing of the product's own to find, no engine, no proxy.
    const nothing = { BOXOFFICE_DATA_DIR: undefined, BOXOFFICE_URL: undefined, DOCKER_HOST: 'unix:///nowhere' }
    server = await startSbs({ args: ['run'], env: nothing })
  })
  afterAll(() => server[Symbol.asyncDispose]())

  test('[3-41] it listens on 127.0.0.1:8000', () => {
    expect(server.url).toBe('http://127.0.0.1:8000')
  })

  test('[3-29] the curl smoke of the seed, as it stands there', async () => {
    const smoke = String.raw`BASE=http://127.0.0.1:8000 && SID=$(curl -sS -X POST "$BASE/sessions" | python3 -c "import sys,json; print(json.load(sys.stdin)['session_id'])") && curl -sS -X POST "$BASE/sessions/$SID/step" -H 'Content-Type: application/json' -d "{\"sandbox_id\":\"$SID\",\"type\":\"bash\",\"payload\":{\"cmd\":\"pwd\"}}" && echo && curl -sS -o /dev/null -w "DELETE %{http_code}\n" -X DELETE "$BASE/sessions/$SID"`
    const { code, stdout } = await run('bash', ['-c', smoke])
    expect(code).toBe(0)
    const [step, last] = stdout.trim().split('\n')
    expect(JSON.parse(step ?? '')).toEqual({ output: expect.stringMatching(/^\/.*\n$/), error: '', exit_code: 0 })
    expect(last).toBe('DELETE 204')
  })

  test('[3-46] the example of the skill runs as it stands there', async () => {
    const skill = readFileSync(join(ROOT, 'skills/sbs/SKILL.md'), 'utf8')
    expect(skill).toMatch(/^---\nname: sbs\ndescription: .+\n---\n/)
    const example = /```bash\n([\s\S]*?)```/.exec(skill)?.[1] ?? ''
    const { code, stdout } = await run('bash', ['-euo', 'pipefail', '-c', example])
    expect(code).toBe(0)
    expect(stdout).toBe('{"output":"","error":"","exit_code":0}{"output":"3\\n","error":"","exit_code":0}closed: 204\n')
  })

  test('[3-40] the other command is the same server; where one listens, the next says which port is taken', async () => {
    const taken = await run(bin('session-based-sandbox'), ['run'])
    expect(taken.code).toBe(1)
    expect(taken.stderr).toMatch(/^sbs: port 8000 on 127\.0\.0\.1 is in use; choose another with --port/)
    await using other = await startSbs({ command: bin('session-based-sandbox') })
    const [a, b] = await Promise.all([server, other].map(async ({ url }) => (await sbsClient(url).call('GET', '/openapi.json')).body))
    expect(a).toEqual(b)
  })
})

describe('its end', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    '[3-64] %s ends everything that runs and leaves no process and no directory',
    async (signal) => {
      await using server = await startSbs()
      const sbs = sbsClient(server.url)
      const [id, idle] = [await sbs.create(), await sbs.create()]
      const time = longTime()
      await sbs.bash(idle, `setsid sleep ${time} >/dev/null 2>&1 & echo left`)
      const running = sbs.bash(id, `sleep ${time} & sleep ${time}`)
      await expect.poll(() => processesWith(time).length).toBeGreaterThan(2)
      const { code } = await server.stop(signal)
      expect(code).toBe(0)
      expect((await running).exit_code).toBe(137)
      await expect.poll(() => processesWith(time)).toEqual([])
      // Every process that it started has its temporary directory in its environment or on its command line.
      await expect.poll(() => processesWith(server.temporary)).toEqual([])
      expect(await server.leftovers()).toEqual([])
      const closed = server.log().filter(({ event }) => event === 'session_closed')
      expect(closed.map(({ session_id }) => session_id).sort()).toEqual([id, idle].sort())
    },
  )

  test('[3-64] also when it cannot start', async () => {
    await using server = await startSbs()
    const { port } = new URL(server.url)
    const { code } = await run(bin('sbs'), ['run', '--port', port], { TMPDIR: server.temporary })
    expect(code).toBe(1)
    expect(await server.leftovers()).toHaveLength(1)
  })
})

describe('what it needs', () => {
  test('[3-65] no engine, no other machine, no directory but a temporary one', async () => {
    const home = '/nonexistent'
    await using server = await startSbs({
      env: { HOME: home, XDG_STATE_HOME: home, DOCKER_HOST: 'unix:///nowhere', http_proxy: 'http://127.0.0.1:9' },
    })
    const sbs = sbsClient(server.url)
    expect((await sbs.bash(await sbs.create(), 'echo works')).output).toBe('works\n')
    expect(existsSync(home)).toBe(false)
    // Whatever listens or calls does so on this machine alone.
    const { stdout } = await run('sh', ['-c', `readlink /proc/${server.child.pid}/fd/* | sed -n 's/^socket:\\[\\(.*\\)\\]$/\\1/p'`])
    const sockets = new Set(stdout.trim().split('\n'))
    const rows = ['tcp', 'tcp6'].flatMap((table) => readFileSync(`/proc/${server.child.pid}/net/${table}`, 'utf8').split('\n').slice(1))
    const own = rows.map((row) => row.trim().split(/\s+/)).filter((fields) => sockets.has(fields[9] ?? ''))
    expect(own.length).toBeGreaterThan(0)
    for (const [, local = ''] of own) expect(local).toMatch(/^(0100007F|0{24}0100007F|0000000000000000FFFF00000100007F):/)
  })

  test('[3-65] no right of root: whoever starts it runs the steps', async () => {
    const asNobody = process.getuid?.() === 0 ? ['unshare', '--mount', 'sh', '-c', AS_NOBODY, ROOT] : []
    const uid = asNobody.length > 0 ? 65_534 : process.getuid?.()
    const temporary = (await run('sh', ['-c', `d=$(mktemp -d); chown ${uid} "$d"; echo "$d"`])).stdout.trim()
    await using server = await startSbs({ before: asNobody, temporary, cwd: '/' })
    const sbs = sbsClient(server.url)
    const id = await sbs.create()
    expect((await sbs.bash(id, 'id -u')).output).toBe(`${uid}\n`)
    expect((await sbs.close(id)).status).toBe(204)
    expect((await server.stop()).code).toBe(0)
    expect(await server.leftovers()).toEqual([])
  })
})
