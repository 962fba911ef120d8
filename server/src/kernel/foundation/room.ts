import type { Route } from './operation.ts'
import type { Tool } from './tool.ts'

/** The operations and tools of a capability. `Needs` is the part of the server that their handlers use. */
export interface Room<Needs> {
  /** Descriptions of the operations' tags, for the API reference. */
  tags: Readonly<Record<string, string>>
  /** REST operations and their handlers. */
  routes: readonly Route<Needs>[]
  /** MCP tools, in the order in which clients see them. */
  tools: readonly Tool<Needs>[]
}
