import type { PageTool, Refused } from '../untrusted/definitions.ts'

/** A page's tool as it is kept in memory: parsed, a schema takes about ten times the space of its text. */
export interface KeptTool {
  readonly name: string
  readonly hash: string
  readonly bytes: number
  /** The `PageTool` as JSON. */
  readonly text: string
}

export const pack = (tool: PageTool): KeptTool => ({
  name: tool.name,
  hash: tool.hash,
  bytes: tool.bytes,
  text: JSON.stringify(tool),
})

export const unpack = ({ text }: KeptTool): PageTool => JSON.parse(text)

/** How many bytes of definitions a node keeps. Pages with the same definition share it, so it counts once. */
export const definitionBudget = { organization: 64 * 1024 * 1024, node: 256 * 1024 * 1024 }

/** Measured and rounded up: what a definition takes beside its text, and what each page that has it takes. */
const bytesPerDefinition = 250
const bytesPerUse = 50

interface Shelf {
  bytes: number
  byHash: Map<string, { tool: KeptTool; bytes: number; uses: number }>
}

/** The tool definitions of all pages on this node, each kept once per organization, within the budget. */
export class KeptDefinitions {
  readonly #budget: typeof definitionBudget
  readonly #shelves = new Map<string, Shelf>()
  #bytes = 0

  constructor(budget = definitionBudget) {
    this.#budget = budget
  }

  /**
   * Replaces a page's tools. Tools that the budget has no room for are left out and named in `refused`. Every page
   * replaces its tools with none when it leaves.
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
      else refused.push({ name: tool.name, reason: 'The server has no room for more tool definitions right now' })
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

/** V8 keeps a text in one byte per character, or in two if any of them needs it. */
const bytesOf = ({ text }: KeptTool): number => bytesPerDefinition + text.length * (isLatin1(text) ? 1 : 2)

const isLatin1 = (text: string): boolean => /^[\0-\xff]*$/.test(text)
