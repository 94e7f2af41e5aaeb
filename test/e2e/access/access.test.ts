import { PLACE } from '../support/places/place.ts'
import { accessSuite } from './access.ts'

accessSuite(PLACE.provider)
