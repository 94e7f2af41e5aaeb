import type { FuzzTarget } from './target.ts'
import agentFrames from './targets/agent-frames.ts'
import agentLines from './targets/agent-lines.ts'
import agentMessages from './targets/agent-messages.ts'
import agentWire from './targets/agent-wire.ts'
import relayAnswers from './targets/relay-answers.ts'
import relayFrames from './targets/relay-frames.ts'
import relayRequests from './targets/relay-requests.ts'
import tokens from './targets/tokens.ts'

export const TARGETS: Readonly<Record<string, FuzzTarget>> = {
  tokens,
  'agent-frames': agentFrames,
  'agent-messages': agentMessages,
  'agent-lines': agentLines,
  'agent-wire': agentWire,
  'relay-requests': relayRequests,
  'relay-answers': relayAnswers,
  'relay-frames': relayFrames,
}
