import { execFileSync } from 'node:child_process'
import { SHIPPED_SUPERVISORS } from '@boxoffice/node-http'
import { describe, expect, test } from 'vitest'
import { isRoot } from '../../src/data-dir/layout.ts'

const [supervisor = ''] = SHIPPED_SUPERVISORS

/** In a network namespace that ends with the command. */
const inNamespace = (script: string): string =>
  execFileSync('unshare', ['--net', 'sh', '-ec', script, 'sh', supervisor], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

describe.runIf(isRoot())('a supervisor that takes the network away', () => {
  const devices = 'tail -n +3 /proc/net/dev | cut -d: -f1'

  test('leaves the loopback device alone', () => {
    const pair = 'ip link set lo up; ip link add eth0 type veth peer name other; ip link set eth0 up; ip address add 10.9.8.7/24 dev eth0'
    expect(inNamespace(`${pair}; ${devices}`).split(/\s+/).filter(Boolean).sort()).toEqual(['eth0', 'lo', 'other'])
    expect(inNamespace(`${pair}; "$1" --offline; ${devices}; ip -o link show up`)).toMatch(/^\s*lo\n1: lo: <LOOPBACK,UP/)
  })

  test('fails where it may not', () => {
    const asNobody = 'setpriv --reuid 65534 --clear-groups --bounding-set=-all'
    expect(() => inNamespace(`ip link add eth0 type veth peer name other; ip link set eth0 up; ${asNobody} "$1" --offline`)).toThrow(
      /Operation not permitted/,
    )
  })
})
