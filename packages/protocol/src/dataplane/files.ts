import { z } from 'zod'

export const FileEntry = z.object({
  path: z.string(),
  type: z.enum(['file', 'directory', 'symlink', 'other']),
  size: z.number().int(),
  mtime: z.string(),
  /** Four octal digits, e.g. `0644`. */
  mode: z.string(),
})
export type FileEntry = z.infer<typeof FileEntry>

export const UploadResponse = z.object({ path: z.string(), size: z.number().int(), created: z.boolean() })
export type UploadResponse = z.infer<typeof UploadResponse>

/** Of an archive: `size` is that of the files in it, `files` their number. */
export const ArchiveUploadResponse = UploadResponse.extend({ files: z.number().int() })
export type ArchiveUploadResponse = z.infer<typeof ArchiveUploadResponse>

export const ListFilesResponse = z.object({ files: z.array(FileEntry), truncated: z.boolean(), next_cursor: z.string().nullable() })
export type ListFilesResponse = z.infer<typeof ListFilesResponse>

export const MkdirRequest = z.object({ path: z.string(), parents: z.boolean().optional() })
/** `created`: false where the directory was there. */
export const MkdirResponse = z.object({ path: z.string(), created: z.boolean() })
export type MkdirResponse = z.infer<typeof MkdirResponse>
export const MoveRequest = z.object({ from: z.string(), to: z.string(), overwrite: z.boolean().optional() })
export const MoveResponse = z.object({ from: z.string(), to: z.string() })
export type MoveResponse = z.infer<typeof MoveResponse>

/** Which tree a file route works on: the workspace, or the sandbox's own file system (contract 3.8). */
export const FileRoot = z.enum(['workspace', 'sandbox'])
export type FileRoot = z.infer<typeof FileRoot>
