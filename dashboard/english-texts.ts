import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ESTree, parseSync, Visitor } from 'vite'

const readLiteral = (key: ESTree.PropertyKey) =>
  key.type === 'Literal' && ['string', 'number'].includes(typeof key.value) ? String(key.value) : undefined

/** With dots for texts in records. */
function namesIn(record: ESTree.ObjectExpression, problem: string): string[] {
  return record.properties.flatMap((property) => {
    if (property.type !== 'Property' || property.computed) throw new Error(problem)
    const name = property.key.type === 'Identifier' ? property.key.name : readLiteral(property.key)
    if (name === undefined) throw new Error(problem)
    if (property.value.type !== 'ObjectExpression') return [name]
    return namesIn(property.value, problem).map((inside) => `${name}.${inside}`)
  })
}

/**
 * The names of the English texts by section, from each `texts('section', { … })` below a folder. The code is parsed,
 * because most of it only runs in browsers.
 */
export function readEnglishTexts(folder: string): Record<string, string[]> {
  const sections: Record<string, string[]> = {}
  for (const file of globSync('**/*.{ts,tsx}', { cwd: folder, exclude: ['**/*.test.*'] })) {
    const { program } = parseSync(file, readFileSync(join(folder, file), 'utf8'))
    const visitor = new Visitor({
      CallExpression({ callee, arguments: [section, english] }) {
        if (callee.type !== 'Identifier' || callee.name !== 'texts') return
        if (section?.type !== 'Literal' || typeof section.value !== 'string' || english?.type !== 'ObjectExpression')
          throw new Error(`${file}: texts() needs the name of a section, and an object`)
        if (sections[section.value]) throw new Error(`${file}: another file has the section “${section.value}”`)
        sections[section.value] = namesIn(english, `${file}: the texts of “${section.value}” need plain names`)
      },
    })
    visitor.visit(program)
  }
  return sections
}
