import { twoMachinesSuite } from './two-machines.ts'

twoMachinesSuite('local', 1)
