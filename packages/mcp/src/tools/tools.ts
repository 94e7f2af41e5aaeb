import { type Tool, toTool } from '../base/tool.ts'
import { acquireTool, heartbeatTool, refreshTool, releaseTool } from '../environment/tools.ts'
import { exec } from './exec.ts'
import { grep } from './grep.ts'
import { processList, processOutput, processSignal, processStart, processStatus, processWrite } from './processes.ts'
import { download, glob, listDir, readFile } from './read-files.ts'
import { sessionInfo, sessionRelease } from './session.ts'
import { editFile, upload, writeFile } from './write-files.ts'

/** Every tool, made once (contract 2.12). */
const ALL: readonly Tool[] = [
  ...[exec, processStart, processList, processStatus, processOutput, processWrite, processSignal],
  ...[readFile, writeFile, editFile, listDir, glob, grep, upload, download],
  ...[sessionInfo, sessionRelease],
  ...[toTool(acquireTool), toTool(refreshTool), toTool(heartbeatTool), toTool(releaseTool)],
]

export const LISTED: readonly Tool['listed'][] = ALL.map(({ listed }) => listed)

const BY_NAME: ReadonlyMap<string, Tool> = new Map(ALL.map((tool) => [tool.listed.name, tool]))

export const toolNamed = (name: string): Tool | undefined => BY_NAME.get(name)
