import { PLACE } from '../support/places/place.ts'
import { eventsSuite } from './events.ts'

eventsSuite(PLACE.provider)
