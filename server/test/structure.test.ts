import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'

/**
 * Checks the structure of `server/src` in docs/architecture.md. Biome checks for import cycles and imports of the roof.
 */

const src = join(import.meta.dirname, '../src')
/** Tests and the samples that they use aren't loaded at run time. */
const isTestCode = (file: string) => /\.test\.ts$|\/samples\.ts$/.test(file)
const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(
  (name) => name.endsWith('.ts') && !isTestCode(name),
)
const textOf = (file: string) => readFileSync(join(src, file), 'utf8')
const folderOf = (file: string) => dirname(file).split('/')[0] as string

/** From the bottom up: a folder of the ground only imports the folders before it. */
const ground = ['lib', 'net', 'config', 'stores', 'foundation', 'http']

/** The files that a file imports, relative to `server/src`. */
const importsOf = (file: string) =>
  [...textOf(file).matchAll(/(?:from|import\() ?'(\.[^']+)'/g)].map(([, specifier = '']) =>
    relative(src, resolve(src, dirname(file), specifier)),
  )

/** The folders that a folder imports, including types. */
function readImports(): Map<string, Set<string>> {
  const imports = new Map<string, Set<string>>()
  for (const file of files.filter((name) => name.includes('/'))) {
    const imported = imports.getOrInsertComputed(folderOf(file), () => new Set())
    for (const target of importsOf(file)) {
      if (!target.startsWith('..') && target.includes('/')) imported.add(folderOf(target))
    }
    imported.delete(folderOf(file))
  }
  return imports
}

test('the program imports no tests and no samples', () => {
  const isFromTests = (target: string) => isTestCode(target) || target.startsWith('../test/')
  expect(files.filter((file) => importsOf(file).some(isFromTests))).toEqual([])
})

test('the ground imports nothing above it, and its folders import each other in one direction', () => {
  const imports = readImports()
  for (const [index, folder] of ground.entries()) {
    const allowed = new Set(ground.slice(0, index))
    expect(
      [...(imports.get(folder) ?? new Set<string>())].filter((name) => !allowed.has(name)),
      folder,
    ).toEqual([])
  }
})

test('rooms import each other in one direction', () => {
  const left = readImports()
  // Repeatedly removes the rooms that import none of the remaining ones; rooms in a cycle are left over.
  for (let found = true; found; ) {
    const free = [...left].filter(([, imported]) => [...imported].every((name) => !left.has(name)))
    for (const [folder] of free) left.delete(folder)
    found = free.length > 0
  }
  expect([...left.keys()], 'folders in a cycle').toEqual([])
})

test.each(['server/src', 'dashboard/src'])('a folder of %s has at most ten files', (folder) => {
  const names = readdirSync(join(src, '../..', folder), { recursive: true, encoding: 'utf8' })
  const sources = names.filter((name) => /\.tsx?$/.test(name) && !isTestCode(name))
  const counts = Object.entries(Object.groupBy(sources, dirname)).map(([inside, of = []]) => [inside, of.length])
  expect(counts.filter(([, count]) => Number(count) > 10)).toEqual([])
})

test('a name is exported once, except by an operation, its function and its tool', () => {
  const exported = files.flatMap((file) =>
    [...textOf(file).matchAll(/^export (?:async )?(?:const|function|class|interface|type|let) (\w+)/gm)].map(
      ([, name = '']) => ({ file, name }),
    ),
  )
  const places = Map.groupBy(exported, ({ name }) => name)
  const isOperation = (found: { file: string }[]) =>
    found.some(({ file }) => file.endsWith('/contract.ts')) || found.every(({ file }) => file.endsWith('/tools.ts'))
  const repeated = [...places].flatMap(([name, found]) => {
    const where = [...new Set(found.map(({ file }) => file))]
    return where.length === 1 || isOperation(found) ? [] : [`${name}: ${where.join(', ')}`]
  })
  expect(repeated).toEqual([])
})

test('every decision says when it was accepted', () => {
  const decisions = join(import.meta.dirname, '../../docs/decisions')
  const isDated = (name: string) =>
    /^# .+\n\n(Accepted|Superseded by \[.+\]\(.+\),) \d{4}-\d\d-\d\d\b/.test(
      readFileSync(join(decisions, name), 'utf8'),
    )
  expect(readdirSync(decisions).filter((name) => !isDated(name))).toEqual([])
})
