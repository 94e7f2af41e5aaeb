import { weatherSuite } from './suites/weather.ts'

weatherSuite('local')
