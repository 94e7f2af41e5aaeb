import { ERRORS, type ErrorCode, type ErrorEnvelope, fromUnknown } from '@boxoffice/protocol'
import { ProtocolError } from '@modelcontextprotocol/server'

/** Where our codes begin: outside −32768…−32000, of which JSON-RPC and MCP keep or have used parts. */
const APPLICATION = -31_000

/**
 * HTTP status of a refusal → JSON-RPC code. What the caller's parameters did wrong is −32602, a defect −32603; any other status
 * `S` is `−31000 − S`, so 404 is −31404. The exact Boxoffice code is in `data.error.code`.
 */
export const jsonRpcCode = (status: number): number => {
  if (status === 400 || status === 413) return -32_602
  return status === 500 ? -32_603 : APPLICATION - status
}

/**
 * Boxoffice code → JSON-RPC code, for every code of the contract.
 *
 * | JSON-RPC | of the environment methods, e.g.                          |
 * | -------- | --------------------------------------------------------- |
 * | −32602   | `INVALID_REQUEST`, `PAYLOAD_TOO_LARGE`                    |
 * | −32603   | `INTERNAL`                                                |
 * | −31401   | `UNAUTHENTICATED`                                         |
 * | −31403   | `FORBIDDEN`, `CAPABILITY_DENIED`                          |
 * | −31404   | `BINDING_NOT_FOUND` (`SESSION_NOT_FOUND`), `NOT_FOUND`    |
 * | −31409   | `BINDING_CONFLICT` (`SESSION_CONFLICT`)                   |
 * | −31410   | `SESSION_EXPIRED`                                         |
 * | −31423   | `SANDBOX_STARTING`; try again                             |
 * | −31429   | `RATE_LIMITED`; try again                                 |
 * | −31501   | `UNSUPPORTED`                                             |
 * | −31503   | `BACKEND_UNAVAILABLE` (`PROVIDER_UNAVAILABLE`), `AGENT_FULL`; try again |
 */
export const JSON_RPC_CODES = Object.fromEntries(Object.entries(ERRORS).map(([code, { status }]) => [code, jsonRpcCode(status)])) as Record<
  ErrorCode,
  number
>

/** What `error.data` of a JSON-RPC error carries: the envelope as HTTP shows it, and what HTTP says in its head. */
export type ErrorData = ErrorEnvelope & { status: number; retry_after?: number }

/** A refusal of the broker, passed on as it came. */
export class BrokerRefusal extends ProtocolError {
  constructor(envelope: ErrorEnvelope, status: number, retryAfter: number | undefined) {
    const data: ErrorData = { ...envelope, status, ...(retryAfter === undefined ? {} : { retry_after: retryAfter }) }
    super(jsonRpcCode(status), envelope.error.message, data)
  }
}

/** Whatever was thrown, as the JSON-RPC error that the caller sees; nothing internal is in it, that goes to `report`. */
export const toProtocolError = (thrown: unknown, report: (error: Error) => void): ProtocolError => {
  if (thrown instanceof ProtocolError) return thrown
  const error = fromUnknown(thrown)
  const requestId = `req_${crypto.randomUUID()}`
  if (error.code === 'INTERNAL') report(new Error(`${requestId}: ${error.message}`, { cause: error.cause }))
  return new BrokerRefusal(error.envelope(requestId), error.status, error.retryAfter)
}
