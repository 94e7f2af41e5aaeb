import { PLACE } from '../support/places/place.ts'
import { relaySuite } from './relay.ts'

relaySuite(PLACE.provider)
