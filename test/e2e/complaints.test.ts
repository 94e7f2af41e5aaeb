import { complaintsSuite } from './suites/complaints.ts'

complaintsSuite('local')
