// Writes the committed files that are generated from the code. With --check, it only reports which are out of date.
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { generateClientTypes } from '../client/generate.ts'
import { api, tags } from '../server/src/api.ts'
import { describeApi } from '../server/src/console/reference/openapi.ts'
import { type Setting, settings } from '../server/src/kernel/config/config.ts'
import { describeAccess } from '../server/test/access-matrix.ts'
import { drawRooms, type Wing, wings } from '../server/test/wings.ts'
import { listTexts } from '../widget/src/view/strings.ts'

const root = join(import.meta.dirname, '..')

const introduction = `<!-- Generated from server/src/kernel/config/config.ts by \`npm run generate\`. Edit it there. -->

# Configuration

You configure Inlay with environment variables, which it reads at startup. Development on one machine needs none of them.
Production needs two: \`INLAY_PUBLIC_URL\` and \`INLAY_SECRET\`.

An empty variable counts as unset. With an invalid value, the server doesn't start; it prints the setting and what to
change. It warns about variables that start with \`INLAY_\`, \`SIGN_IN_\` or \`MODEL_\` and aren't settings. To check a
configuration and the services it points to, run \`npx inlay doctor\`.
`

const document = describeApi(
  api.map(({ operation }) => operation),
  tags,
)

const files: Record<string, () => Promise<string>> = {
  'openapi.json': async () => `${JSON.stringify(document, null, 2)}\n`,
  'client/src/schema.ts': () => generateClientTypes(document),
  'docs/configuration.md': async () => describeSettings(),
  'docs/widget-texts.md': async () => describeTexts(),
  'docs/security.md': async () => insert('docs/security.md', 'access', describeTestedAccess()),
  ...Object.fromEntries(wings.map((wing) => [pageOf(wing), async () => insert(pageOf(wing), 'rooms', drawWing(wing))])),
}

/** Files that are out of date, with their new content. */
export async function outdatedFiles(): Promise<Record<string, string>> {
  const wanted = await Promise.all(Object.entries(files).map(async ([file, make]) => [file, await make()] as const))
  return Object.fromEntries(wanted.filter(([file, text]) => read(file) !== text))
}

if (import.meta.main) {
  const outdated = await outdatedFiles()
  const names = Object.keys(outdated)
  if (process.argv.includes('--check')) {
    for (const file of names) console.error(`${file} is out of date: run \`npm run generate\` and commit the result`)
    process.exitCode = names.length > 0 ? 1 : 0
  } else {
    for (const [file, text] of Object.entries(outdated)) write(file, text)
    console.log(names.length > 0 ? `Wrote ${names.join(', ')}` : 'Everything is up to date')
  }
}

function read(file: string): string | undefined {
  try {
    return readFileSync(join(root, file), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
}

function write(file: string, text: string): void {
  mkdirSync(dirname(join(root, file)), { recursive: true })
  writeFileSync(join(root, file), text)
}

/** Replaces the text between two comments of a page. */
function insert(file: string, name: string, text: string): string {
  const page = read(file) ?? ''
  const [start, end] = [`<!-- ${name}:start -->`, `<!-- ${name}:end -->`]
  const [before, after] = [page.indexOf(start), page.indexOf(end)]
  if (before < 0 || after < before) throw new Error(`${file} needs ${start} and ${end}`)
  return `${page.slice(0, before + start.length)}\n\n${text}\n\n${page.slice(after)}`
}

function describeTestedAccess(): string {
  const tests = globSync('server/**/*.test.ts', { cwd: root }).sort()
  return describeAccess(Object.fromEntries(tests.map((file) => [file, read(file) ?? ''])))
}

function pageOf(wing: Wing): string {
  return `server/src/${wing}/README.md`
}

function drawWing(wing: Wing): string {
  return `\`\`\`\n${drawRooms(wing)}\n\`\`\``
}

function describeSettings(): string {
  const sections = Object.entries<Setting<unknown>>(settings).map(([name, setting]) => {
    const secret = setting.secret ? ' **Secret:** keep it out of repositories, images and logs.' : ''
    const byDefault = setting.default === undefined ? 'Not set by default.' : `Default: \`${setting.default}\`.`
    return `## ${name}\n\n${byDefault}${secret}\n\n${setting.text}\n`
  })
  return `${introduction}\n${sections.join('\n')}`
}

function describeTexts(): string {
  const table = (isReplaceable: boolean) =>
    listTexts()
      .filter((each) => each.isReplaceable === isReplaceable)
      .map(({ key, text }) => `| \`${key}\` | ${text.trim().replaceAll('|', '\\|')} |`)
      .join('\n')
  return `<!-- Generated from widget/src/view/strings.ts by \`npm run generate\`. Edit it there. -->

# Texts of the widget's panel

Your page can replace the texts in the first table with \`setHostContext({ strings })\`, see
[widget.md](widget.md#texts). Keep the values in braces, such as \`{count}\`: the panel fills them in. A text can have 500
characters, and is shown as plain text. Keys that end in \`_one\` or \`_other\` have a plural: add the forms of your
language, such as \`tools_few\`.

| key | English text |
|---|---|
${table(true)}

## Texts that can't be replaced

These belong to questions about calls, and to what screen readers announce. A page could use them to swap the meaning of
the buttons, or to hide what the user allows. They are in English or German.

| key | English text |
|---|---|
${table(false)}
`
}
