import { PLACE } from '../support/places/place.ts'
import { truthSuite } from './truth.ts'

truthSuite(PLACE.provider)
