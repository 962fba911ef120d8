import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const src = join(import.meta.dirname, '../src')

/** The folders of `server/src`, from the bottom up: each imports only those before it. */
export const wings = [
  'kernel',
  'plans',
  'organizations',
  'visitors',
  'accounts',
  'content',
  'tools',
  'agent',
  'channels',
  'console',
] as const
export type Wing = (typeof wings)[number]

/** Tests and the samples that they use aren't loaded at run time. */
export const isTestCode = (file: string): boolean => /\.test\.ts$|\/samples\.ts$/.test(file)

/** The program's files, relative to `server/src`. */
export const files: readonly string[] = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(
  (name) => name.endsWith('.ts') && !isTestCode(name),
)

export const textOf = (file: string): string => readFileSync(join(src, file), 'utf8')

/** The wing of a file, or undefined on the roof. */
export const wingOf = (file: string): Wing | undefined => wings.find((wing) => file.startsWith(`${wing}/`))

/** The room of a file: a folder of a wing. */
export const roomOf = (file: string): string => file.split('/').slice(0, 2).join('/')

/** The files that a file imports, including for types, relative to `server/src`. */
export const importsOf = (file: string): string[] =>
  [...textOf(file).matchAll(/(?:from|import\() ?'(\.[^']+)'/g)].map(([, specifier = '']) =>
    relative(src, resolve(src, dirname(file), specifier)),
  )

/** The rooms of a wing, and which of them each imports. */
export function readRooms(wing: Wing): Map<string, Set<string>> {
  const rooms = new Map<string, Set<string>>()
  for (const file of files.filter((name) => wingOf(name) === wing)) {
    const imported = rooms.getOrInsertComputed(roomOf(file), () => new Set())
    for (const target of importsOf(file)) if (wingOf(target) === wing) imported.add(roomOf(target))
    imported.delete(roomOf(file))
  }
  return rooms
}

/** The rooms of a wing on floors: each imports only rooms below it. Rooms in a circle are left out. */
export function floorsOf(wing: Wing): string[][] {
  const left = readRooms(wing)
  const floors: string[][] = []
  for (;;) {
    const free = [...left].filter(([, imported]) => [...imported].every((name) => !left.has(name)))
    if (free.length === 0) return floors
    for (const [room] of free) left.delete(room)
    floors.push(free.map(([room]) => room).sort())
  }
}

/** What a wing's page shows of it. */
export function drawRooms(wing: Wing): string {
  const rooms = readRooms(wing)
  const nameOf = (room: string) => room.slice(wing.length + 1)
  const lines = floorsOf(wing)
    .toReversed()
    .flatMap((floor) =>
      floor.map((room) => {
        const imported = [...(rooms.get(room) ?? [])].map(nameOf).sort().join('  ')
        return { room: nameOf(room), imported }
      }),
    )
  const width = Math.max(...lines.map(({ room }) => room.length))
  return lines.map(({ room, imported }) => (imported ? `${room.padEnd(width)}  →  ${imported}` : room)).join('\n')
}
