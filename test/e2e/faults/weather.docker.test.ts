import { weatherSuite } from './weather.ts'

weatherSuite('docker')
