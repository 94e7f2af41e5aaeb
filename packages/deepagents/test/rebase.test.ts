import { expect, test } from 'vitest'
import { asAsked, fromCommands, rebase } from '../src/rebase.ts'

test.for([
  ['/workspace/a', '/workspace/a'],
  ['/workspace', '/workspace'],
  ['/tmp/a//b/', '/tmp/a/b'],
  ['/app/x', '/app/x'],
  ['/', '/workspace'],
  ['', '/workspace'],
  ['a.txt', '/workspace/a.txt'],
  ['/a.txt', '/workspace/a.txt'],
  ['/workspaces/a', '/workspace/workspaces/a'],
  ['/large_tool_results/x', '/workspace/large_tool_results/x'],
  ['/tmp/../etc/passwd', '/workspace/etc/passwd'],
  ['../../etc', '/workspace/etc'],
  ['/data/x', '/data/x'],
] as const)('[7.1] the path %j means %j', ([path, means]) => {
  expect(rebase(path, ['/data/'])).toBe(means)
})

test('[7.1] answers have the beginning that was asked for', () => {
  expect(asAsked('/notes/', '/workspace/notes')('/workspace/notes/a')).toBe('/notes/a')
  expect(asAsked('/notes', '/workspace/notes')('/workspace/notes')).toBe('/notes')
  expect(asAsked('/notes', '/workspace/notes')('/workspace/notes-of-others')).toBe('/workspace/notes-of-others')
  expect(asAsked('/', '/workspace')('/workspace/a')).toBe('/workspace/a')
  expect(asAsked('/tmp', '/tmp')('/tmp/a')).toBe('/tmp/a')
})

test('[7.1] what a command has found below the workspace has the name that was asked for', () => {
  expect(fromCommands('./a/b', '/app/a')).toBe('/app/a/b')
  expect(fromCommands('./a/b', '/workspace/a')).toBe('/workspace/a/b')
  expect(fromCommands('/tmp/a', '/tmp')).toBe('/tmp/a')
})
