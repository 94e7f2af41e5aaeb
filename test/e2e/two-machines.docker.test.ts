import { twoMachinesSuite } from './suites/two-machines.ts'

twoMachinesSuite('docker', 2)
