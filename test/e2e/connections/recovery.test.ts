import { PLACE } from '../support/places/place.ts'
import { recoverySuite } from './recovery.ts'

recoverySuite(PLACE.provider)
