import { brokerClient, execOnce, httpClient } from '../http.ts'
import { SLEEPY } from '../profiles.ts'
import { median } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round, type StackAddress } from './row.ts'

const SAMPLES = 15
const MUST_MS = 30

/** The first request to a sandbox that was frozen by its idle timeout: from sending it until the first byte of the answer. */
const wake = async (name: string, stack: StackAddress): Promise<Row> => {
  const broker = brokerClient(stack.brokerUrl, stack.apiKey)
  const grant = await broker.ensure(`bench-wake-${name}`, 'sleepy')
  const client = httpClient()
  const url = `${stack.brokerUrl}/v1/sandbox/sessions/${grant.session_id}?token=false`
  const suspended = async (): Promise<boolean> => {
    const { body } = await client.send('GET', url, { authorization: `Bearer ${stack.apiKey}` })
    return (JSON.parse(body) as { binding: { state: string } }).binding.state === 'suspended'
  }
  const times: number[] = []
  for (let i = 0; i <= SAMPLES; i++) {
    while (!(await suspended())) await new Promise((resolve) => setTimeout(resolve, 50))
    // The broker has decided; the freeze itself is a call to the agent behind that.
    await new Promise((resolve) => setTimeout(resolve, 300))
    const start = performance.now()
    await execOnce(client, grant, '{"argv":["/bin/true"]}')
    if (i > 0) times.push(performance.now() - start)
  }
  await broker.release(grant.session_id)
  client.close()
  const p50 = median(times)
  return {
    row: `wake from freeze to the first byte, ${name}, p50`,
    measured: `${round(p50, 1)} ms`,
    comparison: `${SAMPLES} wakes`,
    must: `≤ ${MUST_MS} ms`,
    stretch: '',
    passed: p50 <= MUST_MS,
    figures: { p50 },
  }
}

export const needs: Needs = { docker: [SLEEPY], local: [SLEEPY] }

/** Waking a suspended sandbox by a request, on both providers. */
export const run = async ({ docker, local }: RowContext): Promise<Row[]> => [await wake('docker', docker), await wake('local', local)]
