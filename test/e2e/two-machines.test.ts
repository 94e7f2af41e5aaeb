import { twoMachinesSuite } from './suites/two-machines.ts'

twoMachinesSuite('local', 1)
