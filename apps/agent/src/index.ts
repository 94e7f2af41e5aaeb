export { type Agent, type AgentOverrides, type AgentReady, createAgent } from './agent.ts'
export { AgentConfig } from './config.ts'
