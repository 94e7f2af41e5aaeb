import { BoxofficeError } from '@boxoffice/protocol'

/** The refusal of an upload beyond the profile's limit [4-108]. */
export const tooLarge = (limit: number): BoxofficeError =>
  new BoxofficeError('PAYLOAD_TOO_LARGE', `body: at most ${limit} bytes (max_upload_bytes of the profile)`, {
    details: { max_upload_bytes: limit },
  })
