import type { Route } from './operation.ts'
import type { Tool } from './tool.ts'

/** What a capability offers to callers. `Needs` is what its functions work with. */
export interface Room<Needs> {
  /** What the API reference says about the tags of the operations. */
  tags: Readonly<Record<string, string>>
  /** REST operations and the functions that do them. A fixed path stands before one with a parameter in its place. */
  routes: readonly Route<Needs>[]
  /** MCP tools, in the order in which clients are told. */
  tools: readonly Tool<Needs>[]
}
