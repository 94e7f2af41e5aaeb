export { type Agent, type AgentOverrides, type AgentReady, createAgent } from './agent.ts'
export { openMachine } from './capacity/machine.ts'
export { describeRoom } from './capacity/room.ts'
export { AgentConfig, isLocal } from './config/config.ts'
