// The example by hand: node test/e2e/example/main.ts <broker url> <api key> [chart.svg]
import { writeFile } from 'node:fs/promises'
import { connect } from '@boxoffice/client'
import { analyseWeather } from './weather.ts'

const [brokerUrl, apiKey, file = 'chart.svg'] = process.argv.slice(2)
if (brokerUrl === undefined || apiKey === undefined) throw new Error('usage: main.ts <broker url> <api key> [chart.svg]')

using client = connect(brokerUrl, { apiKey })
const session = await client.session(`weather-${Date.now()}`)
try {
  const { weather, chart } = await analyseWeather(session)
  await writeFile(file, chart)
  console.log(weather)
  console.log(`chart: ${file}`)
} finally {
  await session.release()
}
