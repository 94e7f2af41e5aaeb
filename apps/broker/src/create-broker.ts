import { buildBroker } from './broker.ts'
import type { Broker, BrokerOverrides } from './broker-types.ts'
import { type BrokerConfig, resolveConfig } from './config/config.ts'

/** Throws `StartError` for settings that cannot work. */
export function createBroker(config: BrokerConfig, overrides: BrokerOverrides = {}): Broker {
  const settings = resolveConfig(config)
  const parts = new AsyncDisposableStack()
  let running: Awaited<ReturnType<typeof buildBroker>> | undefined
  const started = () => running ?? fail('the broker is not started')
  return {
    async start(options = {}) {
      try {
        running = await buildBroker(settings, overrides, options, parts)
        return running.started
      } catch (thrown) {
        await parts.disposeAsync()
        throw thrown
      }
    },
    close: () => parts.disposeAsync(),
    reap: () => started().reaper.run(),
    async settled() {
      const { provisioner, effects } = started()
      await provisioner.settled()
      await effects.settled()
    },
    serveSteps: (options) => started().surfaces.serveSteps(options),
    async rotateKeys(immediately = false) {
      const { rotation } = started()
      await (immediately ? rotation.replace() : rotation.plan())
    },
    boxRpc: (message) => started().surfaces.boxRpc(message),
  }
}

const fail = (message: string): never => {
  throw new Error(message)
}
