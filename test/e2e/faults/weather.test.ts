import { weatherSuite } from './weather.ts'

weatherSuite('local')
