export { type AuthorizeThread, type SandboxRoutesOptions, sandboxRoutes } from './sandbox-routes.ts'
export { getOrCreateSandboxForThread, type RunWithThread } from './thread-sandbox.ts'
