import { BoxofficeError } from '@boxoffice/protocol'

/** 501 naming the feature of E2B that this facade does not have. */
export const unsupported = (feature: string, hint?: string): BoxofficeError =>
  new BoxofficeError('UNSUPPORTED', `Boxoffice does not serve E2B's ${feature}${hint === undefined ? '' : `; ${hint}`}`)
