import { readFileSync } from 'node:fs'
import { TestDataplane } from './dataplane.ts'

const most = (name: 'tcp_rmem' | 'tcp_wmem'): number => Number(readFileSync(`/proc/sys/net/ipv4/${name}`, 'utf8').split(/\s+/)[2])

/** Bytes that this machine's kernel keeps at most between a writer and a reader that stands still; the relay's way has two connections. */
export const kernelBuffers = (): number => (most('tcp_rmem') + most('tcp_wmem')) * (TestDataplane.front === undefined ? 1 : 2)
