import { z } from 'zod'

/** Longer than any reference with a registry, a tag and a digest. */
const MAX_NAME = 512

/** `images` in the configuration. `*` in a pattern stands for any characters but `/`, `**` for any characters. */
export const ImageSettings = z.strictObject({
  allowed: z
    .array(z.string().min(1).max(MAX_NAME))
    .max(256)
    .default([])
    .describe('patterns of images that clients may name, beside those that the configuration itself names'),
})
export type ImageSettings = z.infer<typeof ImageSettings>

/** Says whether a client may name an image. */
export type MayNameImage = (image: string) => boolean

/** `named`: the images of the configuration (profiles, Box, MCP servers), which clients may always name as they stand there. */
export function allowedImages({ allowed }: ImageSettings, named: Iterable<string | null>): MayNameImage {
  const exact = new Set(named)
  const patterns = allowed.map(expressionOf)
  return (image) => exact.has(image) || (image.length <= MAX_NAME && patterns.some((pattern) => pattern.test(image)))
}

const expressionOf = (pattern: string): RegExp => {
  const literal = (text: string): string => text.replace(/[\\^$.+?()[\]{}|]/g, '\\$&')
  const parts = pattern.split(/(\*+)/).map((part) => (part === '*' ? '[^/]*' : part.startsWith('*') ? '.*' : literal(part)))
  return new RegExp(`^${parts.join('')}$`, 's')
}

/** What a refusal says; the allowed ones are not listed, for they may be another tenant's. */
export const imageRefused = (field: string, image: string): string =>
  `${field}: ${JSON.stringify(image.slice(0, MAX_NAME))} is not an image that clients may name here; leave ${field} out, or have an operator add it to images.allowed in the broker's configuration`
