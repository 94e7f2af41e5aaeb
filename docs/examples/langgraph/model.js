import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'

/** What the agent does when it is asked to: the tool that it calls. */
const STEPS = {
  write: { name: 'write_file', args: { path: 'hello.sh', content: 'echo "hello from $1" > hello.txt\n' } },
  run: { name: 'run', args: { command: 'sh hello.sh "$(cat /proc/sys/kernel/random/uuid)" && echo done' } },
  read: { name: 'read_file', args: { path: 'hello.txt' } },
}

/** Stands in for a chat model, so that the example needs no network and no key: each request names a step. */
const answer = (messages) => {
  const last = messages.at(-1)
  if (ToolMessage.isInstance(last)) return new AIMessage(String(last.content))
  const step = STEPS[messages.findLast((message) => HumanMessage.isInstance(message))?.content]
  return step === undefined
    ? new AIMessage(`I can ${Object.keys(STEPS).join(', ')}.`)
    : new AIMessage({ content: '', tool_calls: [{ ...step, id: crypto.randomUUID() }] })
}

/** A model for one call. */
export const model = () => fakeModel().respond(answer)
