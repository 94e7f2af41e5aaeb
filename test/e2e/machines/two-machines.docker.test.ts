import { twoMachinesSuite } from './two-machines.ts'

twoMachinesSuite('docker', 2)
