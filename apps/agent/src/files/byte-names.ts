/** Names of files that are not UTF-8, as text and in archives: for programs that send files to an agent. */

export { fileNameBytes, fileNameText } from './file-name.ts'
export { tarHeader, tarPadding } from './tar-header.ts'
