export type { BrokerOptions } from './broker.ts'
export { JSON_RPC_CODES } from './errors.ts'
export { type ExecToolOptions, mountExec } from './exec-tool.ts'
export { mountEnvironment } from './mount.ts'
