import { PLACE } from '../support/places/place.ts'
import { mountsSuite } from './mounts.ts'

mountsSuite(PLACE.provider)
