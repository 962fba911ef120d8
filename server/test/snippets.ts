import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

const repository = join(import.meta.dirname, '../..')

/** A fenced code block in the documentation. */
export interface Snippet {
  file: string
  line: number
  language: string
  text: string
}

/** The fenced code blocks of a file that have a language, in order. */
export function readSnippets(file: string): Snippet[] {
  const text = readFileSync(join(repository, file), 'utf8')
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = '', body = ''], index, all) => ({
    file,
    line: text.slice(0, all[index]?.index).split('\n').length,
    language,
    text: body,
  }))
}

export const documents = [
  'README.md',
  'tool-server/README.md',
  ...readdirSync(join(repository, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
].sort()

/** A request that a snippet sent with curl, and its response. */
export interface Sent {
  /** Location of the snippet, such as README.md:49. */
  at: string
  status: number
  body: string
}

export interface ShellOptions {
  /** The environment variables with which `inlay` finds the installation. */
  env: Record<string, string>
  /** Fills in the values that readers replace: URLs, names, ports. */
  fill(text: string): string
  /** Programs that the document asks readers to save, which start with their name in a comment. */
  programs?: Snippet[]
}

/**
 * Runs the snippets of a document in order in one shell, as if a reader pasted them. `npx` and `npm` use this checkout,
 * and `npm start` ends once the server is ready. Stops at the first command that fails.
 */
export async function runInShell(snippets: Snippet[], { env, fill, programs = [] }: ShellOptions): Promise<Sent[]> {
  const folder = mkdtempSync(join(tmpdir(), 'inlay-snippets-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'requests'))
  for (const { text } of programs) {
    const [, name] = text.match(/^\/\/ ([\w-]+\.mjs)\n/) ?? []
    if (name) writeFileSync(join(folder, name), fill(text))
  }
  const commands = makeCommands(join(folder, 'bin'))
  const script = snippets.flatMap(({ file, line, text }) => [`export AT='${file}:${line}'`, fill(text)])
  const child = spawn('sh', ['-e'], {
    cwd: folder,
    env: { ...env, PATH: `${commands}:${process.env.PATH}`, HOME: folder, REQUESTS: join(folder, 'requests') },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  child.stdin.end(script.join('\n'))
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`The snippets exited with ${code}:\n${script.join('\n')}\n${output.slice(-4000)}`)
  return readRequests(join(folder, 'requests'))
}

/** Reads the three files of each request: its snippet, its headers and its body. */
function readRequests(folder: string): Sent[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.at'))
  const numbers = names.map((name) => Number.parseInt(name, 10)).sort((a, b) => a - b)
  const read = (name: string) => (existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '')
  return numbers.map((number) => ({
    at: read(`${number}.at`).trim(),
    // The last response is the one after all redirects.
    status: Number([...read(`${number}.head`).matchAll(/^HTTP\/\S+ (\d+)/gm)].at(-1)?.[1]),
    body: read(`${number}.body`),
  }))
}

function makeCommands(folder: string): string {
  mkdirSync(folder)
  const inlay = `'${process.execPath}' '${join(repository, 'server/bin/inlay.mjs')}'`
  const files = {
    curl: `#!/bin/sh
PATH=\${PATH#*:}
number=0
until (set -C; echo "$AT" > "$REQUESTS/$number.at") 2> /dev/null; do number=$((number + 1)); done
curl -D "$REQUESTS/$number.head" "$@" > "$REQUESTS/$number.body"
code=$?
cat "$REQUESTS/$number.body"
exit $code`,
    npx: `#!/bin/sh
command=$1
shift
case $command in
  inlay) exec ${inlay} "$@" ;;
  *) exec '${join(repository, 'node_modules/.bin')}'/$command "$@" ;;
esac`,
    npm: `#!${process.execPath}
const { spawn } = require('node:child_process')
if (process.argv.slice(2).join(' ') !== 'start') throw new Error('Only npm start is supported')
const child = spawn('/bin/sh', ['-c', \`exec ${inlay} start\`], { stdio: ['ignore', 'pipe', 'inherit'] })
let text = ''
child.stdout.on('data', (more) => {
  const wasReady = text.includes('Inlay is ready')
  text += more
  if (!wasReady && text.includes('Inlay is ready')) child.kill('SIGTERM')
})
child.on('close', (code) => process.exit(text.includes('Inlay is ready') ? code : 1))`,
  }
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text)
    chmodSync(join(folder, name), 0o755)
  }
  return folder
}
