import { closeWorkspaces, createSessionSandbox, getSessionSandbox } from '@boxoffice/client/workspaces'

// A program of its own that works on a session: `workspace-process.ts ROOT CODE [ID] [stay]` prints `{id, stdout}`.
const [workspaceRoot = '', code = '', id = '', stay] = process.argv.slice(2)
const options = { workspaceRoot, runtime: 'shell' } as const
const [sessionId, sandbox] = id === '' ? await createSessionSandbox(options) : [id, await getSessionSandbox(id, options)]
const { stdout } = await sandbox.execute(code)
console.log(JSON.stringify({ id: sessionId, stdout }))
if (stay === undefined) await closeWorkspaces()
else setInterval(() => {}, 1000)
