export type { BrokerOptions } from './broker.ts'
export { JSON_RPC_CODES } from './errors.ts'
export { mountEnvironment } from './mount.ts'
