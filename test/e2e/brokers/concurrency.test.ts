import { PLACE } from '../support/places/place.ts'
import { concurrencySuite } from './concurrency.ts'

concurrencySuite(PLACE.provider)
