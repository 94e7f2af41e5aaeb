import { TestDataplane } from '../../apps/agent/test/support/dataplane.ts'
import { TestPreviews } from '../../apps/agent/test/support/previews.ts'
import { startPreviewFront } from './preview-front.ts'
import { startRelayFront } from './relay-front.ts'

// The agent's dataplane and preview tests run a second time with this as their set-up file: whatever they ask goes through the broker's relay.
TestDataplane.front = (plane) => startRelayFront(plane)
TestPreviews.front = startPreviewFront
