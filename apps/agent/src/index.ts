export { type Agent, type AgentOverrides, type AgentReady, createAgent } from './agent.ts'
export { AgentConfig, isLocal } from './config.ts'
