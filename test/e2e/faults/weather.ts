import { connect, isCode } from '@boxoffice/client'
import { describe, expect, test } from 'vitest'
import { analyseWeather } from '../example/weather.ts'
import { API_KEY, type ProviderName, startStack } from '../support/stack.ts'

/** The example of `test/e2e/example`, as a model would go through it. */
export const weatherSuite = (provider: ProviderName): void => {
  describe(`${provider}: a thread analyses a CSV`, () => {
    test('in two steps that share their files, and takes the chart home', { timeout: 120_000 }, async () => {
      await using stack = await startStack({ provider })
      using client = connect(stack.brokerUrl, { apiKey: API_KEY })
      const session = await client.session('weather')

      const { weather, chart } = await analyseWeather(session)

      expect(weather).toMatchObject({
        days: 1461,
        kinds: { rain: 641, snow: 26 },
        wettest: { month: 11, rain: 160.6 },
        warmest: { month: 8, high: 26.1 },
      })
      expect(chart).toMatch(/^<svg [\s\S]*<\/svg>\n$/)
      expect(chart.match(/<polyline/g)).toHaveLength(2)
      expect(chart.match(/fill="#bfdbfe"/g)).toHaveLength(12)

      await session.release()
      await expect(client.session('weather', { mode: 'get' })).rejects.toSatisfy((error) => isCode(error, 'BINDING_NOT_FOUND'))
    })
  })
}
