import { PLACE } from '../support/places/place.ts'
import { scopesSuite } from './scopes.ts'

scopesSuite(PLACE.provider)
