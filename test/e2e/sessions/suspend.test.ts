import { PLACE } from '../support/places/place.ts'
import { suspendSuite } from './suspend.ts'

suspendSuite(PLACE.provider)
