/** What `boxoffice doctor` says of one thing. */
export type Check = { name: string; ok: boolean; message: string }
