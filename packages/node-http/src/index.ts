export { drainable } from './drain.ts'
export { createOrigins, type Origins } from './origins.ts'
export { refuseInEnvelope, refuseUnparsed, requireHost, SERVER_OPTIONS } from './refuse.ts'
export { countRead } from './young-buffers.ts'
