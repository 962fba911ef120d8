// Runs what takes too long for every change, and writes what it showed into released/long-tests.md, for a release.
//
//   npm run test:long                      # about two hours on two cores
//   npm run test:long -- --only=kills,reads
//
// A trial fails if its program does. Its last lines are recorded either way, and the results of trials that weren't run
// stay as they are.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs, stripVTControlCharacters } from 'node:util'

interface Trial {
  name: string
  shows: string
  /** A program in bench/, and its options. */
  command: [program: string, ...options: string[]]
}

const trials: Trial[] = [
  {
    name: 'kills',
    shows: 'No acknowledged write is lost when the server or its PostgreSQL is killed during writes.',
    command: ['kills.ts'],
  },
  {
    name: 'agent-kills',
    shows:
      'No run, question, tool call or usage is lost or doubled when the server is killed while users talk to the agent.',
    command: ['agent-kills.ts'],
  },
  {
    name: 'agent-suspended',
    shows: 'The same if a node is suspended for longer than its lease, and continues after another has taken over.',
    command: ['agent-kills.ts', '--kills=20', '--suspend=30'],
  },
  {
    name: 'reads',
    shows: 'What the dashboard reads, with millions of rows.',
    command: ['reads.ts'],
  },
  {
    name: 'jobs',
    shows:
      'Background jobs: how many in a minute, how long behind those of another organization, and what idling costs.',
    command: ['jobs.ts'],
  },
]

const recordedLines = 20
const repository = join(import.meta.dirname, '..')
const file = join(repository, 'released/long-tests.md')

const { values } = parseArgs({ options: { only: { type: 'string' } } })
const wanted = values.only?.split(',') ?? trials.map(({ name }) => name)
const unknown = wanted.filter((name) => !trials.some((trial) => trial.name === name))
if (unknown.length > 0) {
  console.error(`No such trial: ${unknown.join(', ')}. There are: ${trials.map(({ name }) => name).join(', ')}`)
  process.exit(1)
}

/** Prints the program's output, and returns it. */
async function run([program, ...options]: Trial['command']): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [join(repository, 'bench', program), ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (data) => {
    output += data
    process.stdout.write(data)
  })
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, output }
}

async function describe({ name, shows, command }: Trial): Promise<{ section: string; hasPassed: boolean }> {
  console.log(`\n${name}: node bench/${command.join(' ')}`)
  const begunAt = performance.now()
  const { code, output } = await run(command)
  const minutes = ((performance.now() - begunAt) / 60_000).toFixed(1)
  const lines = stripVTControlCharacters(output).trimEnd().split('\n').slice(-recordedLines)
  const hasPassed = code === 0
  const date = new Date().toISOString().slice(0, 10)
  const where = `${process.platform} ${process.arch}, ${availableParallelism()} cores, Node ${process.version}`
  const section = [
    `## ${name}`,
    shows,
    `${hasPassed ? 'Passed' : '**Failed**'} on ${date} in ${minutes} minutes, at commit ${commit} (${where}): \`node bench/${command.join(' ')}\``,
    ['```', ...lines, '```'].join('\n'),
  ].join('\n\n')
  return { section, hasPassed }
}

const commit = execFileSync('git', ['-C', repository, 'rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
const sections = new Map<string, string>()
if (existsSync(file)) {
  for (const section of readFileSync(file, 'utf8')
    .trimEnd()
    .split(/\n\n(?=## )/)
    .slice(1))
    sections.set(section.slice(3, section.indexOf('\n')), section)
}
for (const trial of trials.filter(({ name }) => wanted.includes(name))) {
  const { section, hasPassed } = await describe(trial)
  if (!hasPassed) process.exitCode = 1
  sections.set(trial.name, section)
  const found = trials.flatMap(({ name }) => sections.get(name) ?? [])
  mkdirSync(join(repository, 'released'), { recursive: true })
  writeFileSync(file, `${['# Long tests', 'Written by `npm run test:long`.', ...found].join('\n\n')}\n`)
}
