export { BoxofficeSandbox } from './boxoffice-sandbox.ts'
export { BoxofficeError, type BoxofficeErrorCode } from './errors.ts'
export type { Auth, BoxofficeSandboxOptions, ThreadsOptions } from './options.ts'
export { SANDBOX_PROMPT } from './prompt.ts'
