import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Session } from '@boxoffice/client'

export type Weather = {
  days: number
  kinds: Record<string, number>
  wettest: { month: number; rain: number }
  warmest: { month: number; high: number }
}

/** Public data that an npm package ships; its `exports` name the entry only, so the way goes from there. */
const observations = join(dirname(fileURLToPath(import.meta.resolve('vega-datasets'))), '../data/seattle-weather.csv')

/** What a model does with a sandbox: brings data, runs a script, looks, runs another on what the first one left, takes the chart home. */
export const analyseWeather = async (session: Session): Promise<{ weather: Weather; chart: string }> => {
  await session.files.upload('seattle-weather.csv', await readFile(observations))
  const first = await session.exec.orThrow('python3 -', { stdin: await script('summarise.py') })
  await session.exec.orThrow('python3 -', { stdin: await script('chart.py') })
  return { weather: JSON.parse(first.stdout), chart: await session.files.text('chart.svg') }
}

const script = (name: string): Promise<string> => readFile(join(import.meta.dirname, name), 'utf8')
