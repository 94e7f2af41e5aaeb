import { PLACE } from '../support/places/place.ts'
import { fallbackSuite } from './fallback.ts'

fallbackSuite(PLACE.provider)
