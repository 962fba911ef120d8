export const template = `---
name: my-skill
description: What this skill does, and when the agent should use it.
---

# Steps

1. Find out what the user wants.
2. Use the tools of the page to do it.
3. Tell the user what you did.
`

export type SkillProblem =
  | 'noFrontmatter'
  | 'noClosing'
  | 'noName'
  | 'upperName'
  | 'longName'
  | 'badName'
  | 'noDescription'
  | 'longDescription'
  | 'longContent'

interface ReadSkill {
  name: string | undefined
  description: string | undefined
  body: string
  /** What the server would refuse, as far as it can be told without a YAML parser. */
  problems: SkillProblem[]
}

export const mostBytes = 256 * 1024
const bytesOf = (text: string): number => new TextEncoder().encode(text).length

/** Inlay's own estimate: four bytes per token. */
export const tokensOf = (text: string): number => Math.ceil(bytesOf(text) / 4)

/** Reads a SKILL.md while it's typed. The server has the last word. */
export function readSkill(content: string): ReadSkill {
  const opening = /^\uFEFF?---\r?\n/.exec(content)
  if (!opening) return { name: undefined, description: undefined, body: content, problems: ['noFrontmatter'] }
  const rest = content.slice(opening[0].length - 1)
  const closing = /\n---\r?(?:\n|$)/.exec(rest)
  if (!closing) return { name: undefined, description: undefined, body: '', problems: ['noClosing'] }
  const lines = rest.slice(1, closing.index + 1).split(/\r?\n/)
  const name = readField(lines, 'name')
  const description = readField(lines, 'description')
  const problems = nameProblems(name)
  if (description === '') problems.push('noDescription')
  if (description && [...description].length > 1024) problems.push('longDescription')
  if (bytesOf(content) > mostBytes) problems.push('longContent')
  return { name, description, body: rest.slice(closing.index + closing[0].length), problems }
}

/** Empty if the field is missing; undefined if its value is written in a way that only the server can read. */
function readField(lines: readonly string[], field: string): string | undefined {
  const at = lines.findIndex((line) => line.startsWith(`${field}:`))
  if (at === -1) return ''
  const value = lines[at]?.slice(field.length + 1).trim() ?? ''
  const isContinued = /^\s+\S/.test(lines[at + 1] ?? '')
  if (isContinued || /^[|>&*!{[]/.test(value)) return readBlock(lines, at, value)
  const quoted = /^(["'])(.*)\1$/.exec(value)
  return quoted ? quoted[2] : value.replace(/\s+#.*$/, '')
}

/** Text over several lines, which must be indented. */
function readBlock(lines: readonly string[], at: number, value: string): string | undefined {
  if (!/^([|>][+-]?|[^|>&*!{[].*)?$/.test(value)) return undefined
  const rest = lines.slice(at + 1)
  const end = rest.findIndex((line) => /^\S/.test(line))
  const block = (end === -1 ? rest : rest.slice(0, end)).map((line) => line.trim()).join(' ')
  return (/^[|>]/.test(value) ? block : `${value} ${block}`).trim()
}

function nameProblems(name: string | undefined): SkillProblem[] {
  if (name === undefined) return []
  if (name === '') return ['noName']
  if (name !== name.toLowerCase()) return ['upperName']
  if ([...name].length > 64) return ['longName']
  return /^[\p{L}\p{N}][\p{L}\p{N}\p{M}]*(-[\p{L}\p{N}][\p{L}\p{N}\p{M}]*)*$/u.test(name) ? [] : ['badName']
}
