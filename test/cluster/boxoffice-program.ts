// A client inside the cluster's network, whose addresses exist only there. Gets the URLs of the brokers, tells what it has met as JSON.
import { connect, type Session } from '@boxoffice/client'

const [urls = '', profile = 'default'] = process.argv.slice(2)
const apiKey = process.env.BOXOFFICE_API_KEY ?? ''
const [one, other] = urls.split(',').map((url) => connect(url, { apiKey }))
if (one === undefined || other === undefined) throw new Error('usage: boxoffice-program.ts URL,URL PROFILE')
const thread = `chart-${crypto.randomUUID()}`

/** Resolves with the way in which the session is suspended next. */
const suspended = async (session: Session): Promise<string | null> => {
  for await (const event of session.events()) if (event.type === 'state' && event.state === 'suspended') return event.mode
  throw new Error('the session has ended')
}

const [first, second] = await Promise.all([one.session(thread, { profile }), other.session(thread, { profile })])
await first.files.upload('greeting.txt', 'hello\n')
const ran = await second.exec('cat greeting.txt; id -u; grep -c : /proc/net/dev')
const froze = await suspended(first)
const woken = await first.exec('cat greeting.txt')
const seen = { sessions: [first.id, second.id], modes: [first.mode, second.mode], provider: first.provider }
await second.release()
const after = await other.session(thread, { mode: 'get' }).then(
  () => 'there',
  (error: { code?: string }) => error.code,
)
process.stdout.write(JSON.stringify({ ...seen, stdout: ran.stdout, exitCode: ran.exitCode, froze, woken: woken.stdout, after }))
