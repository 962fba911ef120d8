import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync, Visitor } from 'vite'

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
        sections[section.value] = english.properties.map((property) => {
          if (property.type === 'Property' && property.key.type === 'Identifier') return property.key.name
          throw new Error(`${file}: the texts of “${section.value}” need plain names`)
        })
      },
    })
    visitor.visit(program)
  }
  return sections
}
