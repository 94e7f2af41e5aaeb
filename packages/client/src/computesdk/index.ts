export type { ComputeCreateOptions } from './create-options.ts'
export type { ComputeFiles } from './files.ts'
export { BoxofficeCompute, type BoxofficeComputeOptions, boxoffice } from './provider.ts'
export type { ComputeCommandOptions, ComputeCommandResult, ComputeInfo, ComputeSandbox } from './sandbox.ts'
