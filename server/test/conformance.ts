import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'

const repository = join(import.meta.dirname, '../..')

interface Check {
  id: string
  status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'INFO' | 'SKIPPED'
}

/** The checks of each scenario that the suite wrote below a folder; with a name, those of that scenario alone. */
export function readResults(folder: string, scenario = '.*'): Check[][] {
  // The suite appends the time of the run to the scenario's name.
  const expected = new RegExp(`^${scenario}-\\d{4}-\\d\\d-\\d\\dT[^/]*/checks\\.json$`)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => expected.test(path))
  return files.map((path) => JSON.parse(readFileSync(join(folder, path), 'utf8')))
}

/** Fails if docs/mcp.md doesn't match the results. Scenarios that were not run count as not applicable. */
export function expectDocumented(role: string, protocol: string, results: Check[][], notRun = 0): void {
  const isPassed = ({ status }: Check) => status === 'SUCCESS'
  const counted = results
    .map((checks) => checks.filter(({ status }) => status !== 'INFO' && status !== 'SKIPPED'))
    .filter((checks) => checks.length > 0)
  const passed = counted.filter((checks) => checks.every(isPassed)).length
  const row = [role, protocol, passed, counted.length - passed + notRun, counted.flat().filter(isPassed).length]
  const docs = readFileSync(join(repository, 'docs/mcp.md'), 'utf8')
  expect(docs).toContain(`\n| ${row.join(' | ')} |\n`)
  const { version } = JSON.parse(
    readFileSync(join(repository, 'node_modules/@modelcontextprotocol/conformance/package.json'), 'utf8'),
  )
  expect(docs).toContain(`conformance suite ${version}`)
}
