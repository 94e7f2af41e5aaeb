import { expect, test } from 'vitest'
import { installCommand } from '../../../../src/surfaces/mcp/sandbox/dependencies.ts'

const PIP = 'PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 pip install'
const copied = `rm -rf /tmp/mcp-a && cp -R /workspace/.mcp/a /tmp/mcp-a && cd /tmp/mcp-a && ${PIP} .`

test.each([
  [['pyproject.toml', 'server.py'], copied],
  [['setup.py'], copied],
  [['requirements.txt', 'pyproject.toml'], copied],
  [['requirements.txt', 'server.py'], `cd /workspace/.mcp/a && ${PIP} -r requirements.txt`],
  [['server.py', 'package.json'], null],
  [[], null],
])('[2-87] what is installed for %j', (files, expected) => {
  expect(installCommand(files, '/workspace/.mcp/a', 'a')).toBe(expected)
})

test('[2-88] a directory is quoted whatever its name', () => {
  expect(installCommand(['requirements.txt'], "/workspace/it's", 'a')).toBe(`cd '/workspace/it'\\''s' && ${PIP} -r requirements.txt`)
})
