export { type Broker, type BrokerOverrides, createBroker, type StartedBroker } from './broker.ts'
export { stepsProfile } from './compat/sbs/profile.ts'
export { BrokerConfig } from './config.ts'
export { StartError } from './start-error.ts'
