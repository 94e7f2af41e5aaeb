import { expect, test } from 'vitest'
import { dataplane } from '../support/api.ts'
import { grantOf, serversApi } from '../support/mcp-servers.ts'
import { ROOT } from '../support/program.ts'
import { startStack } from '../support/stack.ts'
import { mcpServersSuite } from './mcp-servers.ts'

mcpServersSuite('docker')

test('[0-41, 2-10, 2-82] the servers of a pipeline of the Box settings: profiles are not for them, they have a way out', async () => {
  const server = { name: 'plain', mode: 'stdio', command: 'python3', args: [`${ROOT}test/e2e/example/mcp/server.py`] }
  const box = { profile: 'offline_readonly', pipelines: [{ uuid: 'p9', mcp_servers: [server] }] }
  await using stack = await startStack({ provider: 'docker', config: { box } })
  const record = await serversApi(stack).connected('plain')
  expect(record).toMatchObject({ box_session_id: 'mcp-pipeline-p9', box_enabled: true, tool_count: 4 })
  const grant = await grantOf(stack, record)
  const run = async (command: string) => (await dataplane(grant, 'POST', '/exec', { command })).body
  expect(await run('ls /sys/class/net')).toMatchObject({ stdout: 'lo\n' })
  // A name that nobody has: the policy lets it pass, which it does not do with addresses.
  const ask = (host: string) => `python3 -c "import urllib.request as r
try: r.urlopen('http://${host}/')
except r.HTTPError as refused: print(refused.read().decode())"`
  expect(await run(ask('nowhere.invalid'))).toMatchObject({ stdout: expect.stringContaining('unresolvable') })
  expect(await run(ask('169.254.169.254'))).toMatchObject({ stdout: expect.stringContaining('not_allowed') })
})
