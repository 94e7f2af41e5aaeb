export { type Broker, type BrokerOverrides, createBroker, type StartedBroker } from './broker.ts'
export { BrokerConfig, configFromEnvironment } from './config.ts'
export { StartError } from './start-error.ts'
