import { connect } from '@boxoffice/client'

/** The Boxoffice of this server. */
export const broker = { url: process.env.BOXOFFICE_URL ?? 'http://127.0.0.1:7070', auth: { apiKey: process.env.BOXOFFICE_API_KEY ?? '' } }
export const client = connect(broker.url, broker.auth)
