import { complaintsSuite } from './complaints.ts'

complaintsSuite('local')
