import type { KeptTool } from '../stores/bus-messages.ts'
import type { PageTool, Refused } from '../untrusted/definitions.ts'

export const pack = (tool: PageTool): KeptTool => ({
  name: tool.name,
  hash: tool.hash,
  bytes: tool.bytes,
  text: JSON.stringify(tool),
})

export const unpack = ({ text }: KeptTool): PageTool => JSON.parse(text)

/** Maximum bytes of definitions in memory. A definition that several pages share counts once. */
export const definitionBudget = { organization: 64 * 1024 * 1024, node: 256 * 1024 * 1024 }

/** Measured memory overhead, rounded up: per definition beyond its text, and per page that uses it. */
const bytesPerDefinition = 250
const bytesPerUse = 50

interface Shelf {
  bytes: number
  byHash: Map<string, { tool: KeptTool; bytes: number; uses: number }>
}

/** Tool definitions of all pages on this node, stored once per organization, within the budget. */
export class KeptDefinitions {
  readonly #budget: typeof definitionBudget
  readonly #shelves = new Map<string, Shelf>()
  #bytes = 0

  constructor(budget = definitionBudget) {
    this.#budget = budget
  }

  /**
   * Replaces a page's tools. Tools that exceed the budget are left out and listed in `refused`. A page that leaves must
   * replace its tools with an empty list.
   */
  replace(
    organizationId: string,
    before: ReadonlyMap<string, KeptTool>,
    after: Iterable<KeptTool>,
  ): { tools: ReadonlyMap<string, KeptTool>; refused: Refused[] } {
    const shelf = this.#shelves.get(organizationId) ?? { bytes: 0, byHash: new Map() }
    for (const { hash } of before.values()) this.#drop(shelf, hash)
    const tools = new Map<string, KeptTool>()
    const refused: Refused[] = []
    for (const tool of after) {
      const kept = this.#keep(shelf, tool)
      if (kept) tools.set(kept.name, kept)
      else
        refused.push({ name: tool.name, reason: 'The server’s memory for tool definitions is full. Try again later.' })
    }
    if (shelf.byHash.size > 0) this.#shelves.set(organizationId, shelf)
    else this.#shelves.delete(organizationId)
    return { tools, refused }
  }

  #keep(shelf: Shelf, tool: KeptTool): KeptTool | undefined {
    const known = shelf.byHash.get(tool.hash)
    const bytes = known ? 0 : bytesOf(tool)
    const added = bytes + bytesPerUse
    if (shelf.bytes + added > this.#budget.organization || this.#bytes + added > this.#budget.node) return undefined
    this.#count(shelf, added)
    if (known) known.uses += 1
    else shelf.byHash.set(tool.hash, { tool, bytes, uses: 1 })
    return known?.tool ?? tool
  }

  #drop(shelf: Shelf, hash: string): void {
    const known = shelf.byHash.get(hash)
    if (!known) return
    known.uses -= 1
    this.#count(shelf, -bytesPerUse)
    if (known.uses > 0) return
    shelf.byHash.delete(hash)
    this.#count(shelf, -known.bytes)
  }

  #count(shelf: Shelf, bytes: number): void {
    shelf.bytes += bytes
    this.#bytes += bytes
  }
}

/** V8 stores a string with one byte per character, or with two if any character is outside Latin-1. */
const bytesOf = ({ text }: KeptTool): number => bytesPerDefinition + text.length * (isLatin1(text) ? 1 : 2)

const isLatin1 = (text: string): boolean => /^[\0-\xff]*$/.test(text)
