import { maxDefinitionBytes } from '@inlay/protocol'
import { type PageTool, type Refused, requireFit } from '../../kernel/untrusted/definitions.ts'
import type { KeptTool } from './messages.ts'

export const pack = (tool: PageTool): KeptTool => ({
  name: tool.name,
  hash: tool.hash,
  bytes: tool.bytes,
  text: JSON.stringify(tool),
})

export const unpack = ({ text }: KeptTool): PageTool => JSON.parse(text)

const MiB = 1024 * 1024

/**
 * Maximum bytes of definitions in memory: per organization, of its visitors, of one visitor, of all visitors, and in
 * total. A definition that several users' pages share counts once, and so does one that visitors' pages share.
 */
export const definitionBudget = {
  organization: 64 * MiB,
  visitorsOfOrganization: 16 * MiB,
  visitor: 2 * maxDefinitionBytes,
  visitors: 64 * MiB,
  node: 256 * MiB,
}

/** Measured memory overhead, rounded up: per definition beyond its text, and per page that uses it. */
const bytesPerDefinition = 250
const bytesPerUse = 50

const isFull = 'The server’s memory for tool definitions is full. Try again later.'
const gaveWay = 'The server needed the memory for the tools of others. Try again later.'

/** Whose page it is. */
export interface PageOwner {
  organizationId: string
  /** Identifies an anonymous visitor. */
  visitor: string | undefined
  /** The page's definitions were given up, to make room for those of others. */
  gaveWay(refused: Refused[]): void
}

/** The definitions of an organization's users, or of its visitors. */
interface Shelf {
  organizationId: string
  isVisitors: boolean
  bytes: number
  byHash: Map<string, { tool: KeptTool; bytes: number; uses: number }>
  pages: Set<PageDefinitions>
}

/**
 * Tool definitions of all pages on this node, stored once per organization, within the budget. If a user needs room,
 * visitors give way first. If the node is full, the organization with the most gives way to one that has less.
 */
export class KeptDefinitions {
  readonly #budget: typeof definitionBudget
  /** Those of users by organization, those of visitors by organization and ` visitors`. */
  readonly #shelves = new Map<string, Shelf>()
  readonly #visitors = new Map<string, number>()
  #bytes = 0
  #visitorsBytes = 0

  constructor(budget: Partial<typeof definitionBudget> = {}) {
    this.#budget = { ...definitionBudget, ...budget }
  }

  /** The definitions of a new page, which has none yet. A page that leaves must clear them. */
  open(owner: PageOwner): PageDefinitions {
    return new PageDefinitions(this, owner)
  }

  /** Returns the definition to use, or undefined if there is no room for it. */
  keep(page: PageDefinitions, tool: KeptTool): KeptTool | undefined {
    const shelf = this.#shelfOf(page.owner)
    const known = shelf.byHash.get(tool.hash)
    const bytes = known ? 0 : bytesOf(tool)
    const added = bytes + bytesPerUse
    const { visitor } = page.owner
    const hasSpace =
      visitor === undefined
        ? this.#makeSpace(shelf, added)
        : this.#hasVisitorSpace(shelf, page.owner, added, tool.bytes)
    if (!hasSpace) return undefined
    // Making room may have taken away the last page that used it.
    const kept = shelf.byHash.get(tool.hash)
    const entry = kept ?? { tool, bytes: bytesOf(tool), uses: 0 }
    if (!kept) {
      shelf.byHash.set(tool.hash, entry)
      this.#count(shelf, entry.bytes)
    }
    entry.uses += 1
    this.#count(shelf, bytesPerUse)
    this.#countVisitor(page.owner, tool.bytes)
    shelf.pages.add(page)
    this.#shelves.set(nameOf(page.owner), shelf)
    return entry.tool
  }

  drop(page: PageDefinitions, { hash, bytes }: KeptTool): void {
    const shelf = this.#shelfOf(page.owner)
    const known = shelf.byHash.get(hash)
    if (!known) return
    known.uses -= 1
    this.#count(shelf, -bytesPerUse)
    this.#countVisitor(page.owner, -bytes)
    if (known.uses > 0) return
    shelf.byHash.delete(hash)
    this.#count(shelf, -known.bytes)
  }

  /** The page has no definitions anymore. */
  forget(page: PageDefinitions): void {
    const shelf = this.#shelfOf(page.owner)
    shelf.pages.delete(page)
    if (shelf.pages.size === 0) this.#shelves.delete(nameOf(page.owner))
  }

  #shelfOf(owner: PageOwner): Shelf {
    const { organizationId, visitor } = owner
    return (
      this.#shelves.get(nameOf(owner)) ?? {
        organizationId,
        isVisitors: visitor !== undefined,
        bytes: 0,
        byHash: new Map(),
        pages: new Set(),
      }
    )
  }

  #hasVisitorSpace(shelf: Shelf, owner: PageOwner, added: number, ofPage: number): boolean {
    const { organization, visitorsOfOrganization, visitor, visitors, node } = this.#budget
    return (
      shelf.bytes + added <= visitorsOfOrganization &&
      (this.#visitors.get(visitorName(owner)) ?? 0) + ofPage <= visitor &&
      this.#visitorsBytes + added <= visitors &&
      this.#bytesOf(shelf.organizationId) + added <= organization &&
      this.#bytes + added <= node
    )
  }

  /** Makes room for definitions of a user. */
  #makeSpace(shelf: Shelf, added: number): boolean {
    const { organizationId } = shelf
    const { organization, node } = this.#budget
    if (shelf.bytes + added > organization) return false
    while (this.#bytesOf(organizationId) + added > organization) {
      if (!this.#giveWay(this.#shelves.get(`${organizationId} visitors`))) return false
    }
    while (this.#bytes + added > node) {
      const visitors = this.#largest(({ isVisitors }) => isVisitors)
      // No organization takes from one that would then have less than itself.
      const others = this.#largest((other) => !other.isVisitors && other.bytes > shelf.bytes + added)
      if (!this.#giveWay(visitors) && !this.#giveWay(others)) return false
    }
    return true
  }

  #largest(isMeant: (shelf: Shelf) => boolean): Shelf | undefined {
    let largest: Shelf | undefined
    for (const shelf of this.#shelves.values()) {
      if (isMeant(shelf) && shelf.bytes > (largest?.bytes ?? 0)) largest = shelf
    }
    return largest
  }

  /** Takes the definitions from the page that has the most. Returns false if no page has any. */
  #giveWay(shelf: Shelf | undefined): boolean {
    let largest: PageDefinitions | undefined
    for (const page of shelf?.pages ?? []) if (page.bytes > (largest?.bytes ?? -1)) largest = page
    largest?.giveWay()
    return largest !== undefined
  }

  #bytesOf(organizationId: string): number {
    const [users, visitors] = [this.#shelves.get(organizationId), this.#shelves.get(`${organizationId} visitors`)]
    return (users?.bytes ?? 0) + (visitors?.bytes ?? 0)
  }

  #count(shelf: Shelf, bytes: number): void {
    shelf.bytes += bytes
    this.#bytes += bytes
    if (shelf.isVisitors) this.#visitorsBytes += bytes
  }

  #countVisitor(owner: PageOwner, bytes: number): void {
    if (owner.visitor === undefined) return
    const name = visitorName(owner)
    const rest = (this.#visitors.get(name) ?? 0) + bytes
    if (rest > 0) this.#visitors.set(name, rest)
    else this.#visitors.delete(name)
  }
}

/** The tools of one page. Changes cost as much as what they change, however many tools the page has. */
export class PageDefinitions {
  readonly owner: PageOwner
  readonly #kept: KeptDefinitions
  readonly #tools = new Map<string, KeptTool>()
  #bytes = 0

  constructor(kept: KeptDefinitions, owner: PageOwner) {
    this.#kept = kept
    this.owner = owner
  }

  get tools(): ReadonlyMap<string, KeptTool> {
    return this.#tools
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Replaces all tools. Those that exceed the budget are left out, and returned. */
  list(tools: ReadonlyMap<string, KeptTool>): Refused[] {
    return this.change([...this.#tools.keys()], tools)
  }

  /** Removes tools, and adds or replaces others. Throws without a change if the page would have too many. */
  change(removed: readonly string[], set: ReadonlyMap<string, KeptTool>): Refused[] {
    const gone = new Set([...removed, ...set.keys()].filter((name) => this.#tools.has(name)))
    let bytes = this.#bytes
    for (const name of gone) bytes -= this.#tools.get(name)?.bytes ?? 0
    for (const tool of set.values()) bytes += tool.bytes
    requireFit(this.#tools.size - gone.size + set.size, bytes)
    for (const name of removed) this.#remove(name)
    const refused: Refused[] = []
    for (const tool of set.values()) {
      this.#drop(tool.name)
      const kept = this.#kept.keep(this, tool)
      if (kept) {
        // A tool that is replaced keeps its place.
        this.#tools.set(kept.name, kept)
        this.#bytes += kept.bytes
      } else {
        this.#tools.delete(tool.name)
        refused.push({ name: tool.name, reason: isFull })
      }
    }
    if (this.#tools.size === 0) this.#kept.forget(this)
    return refused
  }

  clear(): void {
    for (const name of [...this.#tools.keys()]) this.#remove(name)
    this.#kept.forget(this)
  }

  giveWay(): void {
    const refused = Array.from(this.#tools.keys(), (name) => ({ name, reason: gaveWay }))
    this.clear()
    this.owner.gaveWay(refused)
  }

  #remove(name: string): void {
    this.#drop(name)
    this.#tools.delete(name)
  }

  #drop(name: string): void {
    const tool = this.#tools.get(name)
    if (!tool) return
    this.#bytes -= tool.bytes
    this.#kept.drop(this, tool)
  }
}

const nameOf = ({ organizationId, visitor }: PageOwner): string =>
  visitor === undefined ? organizationId : `${organizationId} visitors`

const visitorName = ({ organizationId, visitor }: PageOwner): string => `${organizationId} ${visitor}`

/** V8 stores a string with one byte per character, or with two if any character is outside Latin-1. */
const bytesOf = ({ text }: KeptTool): number => bytesPerDefinition + text.length * (isLatin1(text) ? 1 : 2)

const isLatin1 = (text: string): boolean => /^[\0-\xff]*$/.test(text)
