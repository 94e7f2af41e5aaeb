export { type AiSandboxFiles, aiSandboxFiles } from './files.ts'
export type { AiSandboxProcess, AiSandboxProcessOptions, AiWritableSandboxProcess } from './process.ts'
export { type AiSandboxOptions, type AiSandboxSession, aiSandbox } from './sandbox.ts'
