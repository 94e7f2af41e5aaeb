import { complaintsSuite } from './complaints.ts'

complaintsSuite('docker')
