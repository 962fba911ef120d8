import type { CallToolResult, ToolAnnotations } from '@modelcontextprotocol/server'
import type { z } from 'zod'
import type { Access, Caller, CallerOf } from './caller.ts'
import type { Service } from './service.ts'

/** Nobody calls a tool without being signed in. */
export type ToolAccess = Exclude<Access, 'public'>

/** What is known of a tool beside what it does. */
interface Facts<A extends ToolAccess = ToolAccess, Input extends z.ZodObject = z.ZodObject> {
  name: string
  title: string
  /** For a model: what it gets, and when it wants that. */
  description: string
  access: A
  input: Input
  annotations: ToolAnnotations
}

/** One MCP tool as data: lists, access checks and the tests are read off it. `Needs` is what its function works with. */
export interface Tool<Needs> extends Facts {
  /** A tool without one passes on what another tool answers. */
  output?: z.ZodType
  handler: Handler<Needs, Caller, Record<string, unknown>, unknown>
}

/** What a call may want to know of the request that brings it. Only tools that take long do. */
export interface ToolCall {
  /** Fires when the client is gone. */
  readonly signal: AbortSignal
  /** Tells the client how far the call is, if it asked for that. */
  progress(progress: { progress: number; total?: number; message?: string }): void
}

type Handler<Needs, Who, Input, Output> = (service: Needs, caller: Who, input: Input, call: ToolCall) => Promise<Output>

/** Ties a tool to the function that does it; the types of both must agree. */
export const tool = <A extends ToolAccess, Input extends z.ZodObject, Output extends z.ZodType, Needs = Service>(
  definition: Facts<A, Input> & {
    output: Output
    handler: Handler<Needs, CallerOf<A>, z.output<Input>, z.input<Output>>
  },
): Tool<Needs> => definition as unknown as Tool<Needs>

/** What a tool that passes on another one's answer gives. */
export type Relayed = Pick<CallToolResult, 'content' | 'structuredContent' | 'isError' | '_meta'>

export const relayTool = <A extends ToolAccess, Input extends z.ZodObject, Needs = Service>(
  definition: Facts<A, Input> & { handler: Handler<Needs, CallerOf<A>, z.output<Input>, Relayed> },
): Tool<Needs> => definition as unknown as Tool<Needs>
