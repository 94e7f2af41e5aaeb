import { Command, Option } from 'commander'
import type { Check } from '../doctor/check.ts'
import { runChecks } from '../doctor/checks.ts'
import { leave, printJson } from '../terminal/output.ts'

type DoctorFlags = { provider: 'auto' | 'docker' | 'local'; dataDir?: string; broker?: string; json?: boolean }

export const doctorCommand = (): Command =>
  new Command('doctor')
    .summary('check what this machine needs')
    .description('One line per check: ok, or what to do. Exits with 1 if any fails.')
    .addOption(new Option('--provider <name>', 'check for this one only').choices(['auto', 'docker', 'local']).default('auto'))
    .option('--data-dir <dir>', 'where `up` keeps its files (BOXOFFICE_DATA_DIR)')
    .option('--broker <url>', 'check this broker, its key and its clock (BOXOFFICE_URL)')
    .option('--json', 'one JSON object: {"checks":[…]}')
    .action(doctor)

const doctor = async ({ json, ...flags }: DoctorFlags): Promise<never> => {
  const checks = await runChecks(flags)
  if (json) printJson({ checks })
  else for (const check of checks) process.stdout.write(`${line(check)}\n`)
  return await leave(checks.every(({ ok }) => ok) ? 0 : 1)
}

const line = ({ name, ok, message }: Check): string => `${name.padEnd(12)}${ok ? 'ok' : 'FAIL'}  ${message}`
