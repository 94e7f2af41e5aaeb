const KiB = 1024
const MiB = 1024 * KiB

/** Every size that is part of the contract, in bytes unless the name says otherwise. */
export const LIMITS = {
  /** Control routes [C-80]. */
  controlBodyBytes: 64 * KiB,
  /** Of a policy of egress as JSON; what carries one may have twice as much. */
  policyBytes: 512 * KiB,
  /** What an agent says of all its sandboxes at once. */
  agentReportBytes: 4 * MiB,
  /** `POST D/exec` [C-63]. */
  execBodyBytes: 20 * MiB,
  /** The longest argument that Linux takes is 128 KiB with the NUL at its end. */
  commandBytes: 128 * KiB - 1,
  argvBytes: 1 * MiB,
  /** A client's WebSocket message, after and before authentication [C-36]. */
  messageBytes: 1 * MiB,
  messageBytesBeforeAuth: 16 * KiB,
  /** A stream chunk from the server [C-36]. */
  chunkBytes: 64 * KiB,
  defaultOutputBytes: 1 * MiB,
  maxOutputBytes: 16 * MiB,
  /** What a stream keeps for replay (contract 3.4). */
  ringBytes: 1 * MiB,
  /** In acknowledged mode, how far the server runs ahead of the client's report (contract 3.4). */
  unacknowledgedBytes: 768 * KiB,
  /** Flow control towards clients [4-134]: stop reading the process above, go on below. */
  highWaterBytes: 512 * KiB,
  lowWaterBytes: 128 * KiB,
  maxUploadBytes: 100 * MiB,
  /** The value of a secret as UTF-8. */
  secretBytes: 64 * KiB,
} as const

/** Times of the contract, in seconds. */
export const TIMES = {
  authenticateWithin: 5,
  execDisconnectGrace: 30,
  shellDisconnectGrace: 300,
  stalledReader: 120,
  pingEvery: 30,
  execRecordKept: 600,
  defaultExecTimeout: 60,
  tokenGraceOnSocket: 30,
} as const
