/** Names of files that are not UTF-8, as text and in archives: for programs that send files to an agent. */
export { tarHeader, tarPadding } from './http/tar-header.ts'
export { fileNameBytes, fileNameText } from './sandbox/file-name.ts'
