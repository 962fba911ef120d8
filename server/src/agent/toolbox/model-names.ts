import { hash } from 'node:crypto'
import type { ToolRef } from '../runs/run.ts'

const maxLength = 64
const suffixLength = 6

/**
 * Gives tools names that every model accepts. Names that are already acceptable stay as they are; if several tools would
 * get the same name, the first keeps it, and the others get a suffix that depends only on the tool, so that names don't
 * change between steps.
 */
export function nameTools<Tool extends { ref: ToolRef; definitionHash: string }>(
  tools: readonly Tool[],
  taken: Iterable<string>,
): (Tool & { name: string })[] {
  const used = new Set(taken)
  return tools.map((tool) => {
    const name = chooseName(tool, used)
    used.add(name)
    return { ...tool, name }
  })
}

function chooseName({ ref, definitionHash }: { ref: ToolRef; definitionHash: string }, used: Set<string>): string {
  const plain = ref.name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, maxLength)
  if (/[a-zA-Z0-9]/.test(plain) && !used.has(plain)) return plain
  for (let attempt = 0; ; attempt += 1) {
    const digest = hash('sha256', JSON.stringify([ref.kind, ref.name, definitionHash, attempt]), 'hex')
    const base = /[a-zA-Z0-9]/.test(plain) ? plain.slice(0, maxLength - suffixLength - 1) : 'tool'
    const name = `${base}_${digest.slice(0, suffixLength)}`
    if (!used.has(name)) return name
  }
}
