import type { CallToolResult, ToolAnnotations } from '@modelcontextprotocol/server'
import type { z } from 'zod'
import type { Access, AccessRule, Caller, CallerOf } from './caller.ts'
import type { Service } from './service.ts'

/** Tools can only be called with a token or a service account's key. */
export type ToolAccess = Exclude<Access, 'public'>

/** A tool without its handler. */
interface Facts<
  A extends ToolAccess = ToolAccess,
  Input extends z.ZodObject = z.ZodObject,
  UsersOnly extends string | undefined = string | undefined,
> extends AccessRule {
  name: string
  title: string
  /** Tells a model what the tool returns, and when to use it. */
  description: string
  access: A
  usersOnly?: UsersOnly
  input: Input
  annotations: ToolAnnotations
}

/** One MCP tool as data. Lists, access checks and tests are derived from it. `Needs` is what its handler uses. */
export interface Tool<Needs> extends Facts {
  /** Absent for a tool that returns the result of another tool. */
  output?: z.ZodType
  handler: Handler<Needs, Caller, Record<string, unknown>, unknown>
}

/** The request behind a call, for tools that take long. */
export interface ToolCall {
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal
  /** False if the caller has lost its right to make the call. Asked immediately before the call is sent. */
  mayStillCall?: (() => boolean) | undefined
  /** Learns what the governance provider decided, whether the call succeeds or not. */
  governed?: ((decision: Governed) => void) | undefined
  /** Reports progress to the client, if it asked for it. */
  progress(progress: { progress: number; total?: number; message?: string }): void
}

/** `refused`: before the tool ran. `result_refused`: after it ran. `none`: there is no governance provider. */
export type Governed = 'none' | 'allowed' | 'refused' | 'result_refused'

/** The reason for aborting a call whose result is still needed. The page isn't told to cancel it. */
export class CallerGone extends Error {
  override name = 'CallerGone'
}

type Handler<Needs, Who, Input, Output> = (service: Needs, caller: Who, input: Input, call: ToolCall) => Promise<Output>

/** Checks that the types of a tool and its handler agree. */
export const tool = <
  A extends ToolAccess,
  Input extends z.ZodObject,
  Output extends z.ZodType,
  Needs = Service,
  UsersOnly extends string | undefined = undefined,
>(
  definition: Facts<A, Input, UsersOnly> & {
    output: Output
    handler: Handler<Needs, CallerOf<A, UsersOnly>, z.output<Input>, z.input<Output>>
  },
): Tool<Needs> => definition as unknown as Tool<Needs>

/** The result of another tool, passed on unchanged. */
export type Relayed = Pick<CallToolResult, 'content' | 'structuredContent' | 'isError' | '_meta'>

export const relayTool = <
  A extends ToolAccess,
  Input extends z.ZodObject,
  Needs = Service,
  UsersOnly extends string | undefined = undefined,
>(
  definition: Facts<A, Input, UsersOnly> & {
    handler: Handler<Needs, CallerOf<A, UsersOnly>, z.output<Input>, Relayed>
  },
): Tool<Needs> => definition as unknown as Tool<Needs>
