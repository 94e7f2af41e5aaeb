import { setTimeout as delay } from 'node:timers/promises'
import { brokerApi, dataplane, type Grant } from '../../e2e/support/api.ts'
import { type Stack, startStack } from '../../e2e/support/stack.ts'
import { type Part, print } from '../part.ts'
import { type CrowdReport, startCrowd } from './crowd.ts'
import { type Disturbed, disturbDatabase, type Kills, killBrokers } from './disturbances.ts'
import { findingsOf } from './findings.ts'

/**
 * Brokers as processes on one PostgreSQL, with clients behind a load balancer, and what may happen to them: a broker is killed every two
 * seconds; then the database is restarted and its connections are cut. False when anything was doubled, left over or lost.
 * Options: `--brokers 2,3 --clients 200 --seconds 120`.
 */
export const run: Part = async (options) => {
  const seconds = Number(options.seconds ?? 120)
  const clients = Number(options.clients ?? 200)
  let holds = true
  for (const brokers of (options.brokers ?? '2,3').split(',').map(Number)) {
    await using stack = await startStack({
      provider: 'local',
      database: 'postgres',
      brokers,
      // A busy machine may keep an agent from reporting for longer than the product allows.
      config: { agent_timeout: 60, agent_lost_after: 600 },
    })
    const rounds = { kills: (kills: Kills) => killBrokers(stack, seconds, kills), database: () => disturbDatabase(stack, seconds) }
    for (const [name, disturb] of Object.entries(rounds)) holds = (await disturbed(stack, { name, brokers, clients, disturb })) && holds
  }
  return holds
}

type Round = { name: string; brokers: number; clients: number; disturb: (kills: Kills) => Promise<Disturbed> }

const disturbed = async (stack: Stack, { name, brokers, clients, disturb }: Round): Promise<boolean> => {
  const stopped = new AbortController()
  // Before anything is disturbed: what a request meets then is for the crowd to find.
  const commands = runCommands(await brokerApi(stack.brokerUrl).ensure(`${name}-commands`), stopped.signal)
  const kills = { begun: 0, ended: 0 }
  const crowd = startCrowd({ url: stack.brokerUrl, clients, prefix: name, kills })
  const done = await disturb(kills)
  const report = await crowd.stop()
  stopped.abort()
  const { sent, failed } = await commands
  // The load balancer leads to another broker at once. A database that is away is asked as often as its clients like.
  const tooOften = kills.begun > 0 ? report.tooOften : []
  const findings = [...(await findingsOf(stack, report)), ...failed, ...tooOften]
  print({ name, brokers, clients, ...done, ...summaryOf(report), commands: sent, findings: findings.length })
  for (const finding of findings.slice(0, 50)) print(finding)
  return findings.length === 0
}

const summaryOf = ({ repetitions, causes, tokens, execs }: CrowdReport) => ({
  requests: repetitions.reduce((sum, n = 0) => sum + n, 0),
  repetitions: Object.fromEntries(Object.entries(repetitions)),
  causes: Object.fromEntries(causes),
  tokens: tokens.length,
  execs,
})

/** Commands of one session, with the token that it got at the start: whatever happens to brokers and database, they run. */
const runCommands = async (grant: Grant, signal: AbortSignal): Promise<{ sent: number; failed: string[] }> => {
  const failed: string[] = []
  let sent = 0
  while (!signal.aborted) {
    sent++
    const reply = await dataplane(grant, 'POST', '/exec', { command: 'true' }).catch((thrown: unknown) => String(thrown))
    if (typeof reply === 'string') failed.push(`a command was not answered: ${reply}`)
    else if (reply.status !== 200) failed.push(`a command was refused: ${reply.status} ${reply.text.slice(0, 300)}`)
    await delay(50)
  }
  return { sent, failed }
}
