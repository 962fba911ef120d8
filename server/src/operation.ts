import type { z } from 'zod'
import type { CallerOf } from './access.ts'
import type { ErrorCode } from './errors.ts'
import type { Service } from './service.ts'

/** Who may call: anybody, a signed-in person, a member of the token's organization, one of its admins. */
export type Access = 'public' | 'user' | 'org' | 'admin'

type Shape = z.ZodObject

/** One REST operation as data. The router, the access check, OpenAPI and the tests are all read off it. */
export interface Operation<
  A extends Access = Access,
  Params extends Shape = Shape,
  Query extends Shape = Shape,
  Body extends Shape = Shape,
  Response extends z.ZodType = z.ZodType,
> {
  id: string
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** Below `/api`, parameters in braces. */
  path: string
  access: A
  tag: string
  summary: string
  description?: string
  /** What a path parameter `id` names, for the 404 of one that is not even an id. */
  resource?: string
  params?: Params
  query?: Query
  body?: Body
  response: Response
  /** Beside those that follow from the access level. */
  errors: readonly ErrorCode[]
}

/** Path, query and body in one object: an MCP tool passes the same. */
export type Input<O> = (O extends { params: infer P extends z.ZodType } ? z.output<P> : unknown) &
  (O extends { query: infer Q extends z.ZodType } ? z.output<Q> : unknown) &
  (O extends { body: infer B extends z.ZodType } ? z.output<B> : unknown)

export type Output<O extends { response: z.ZodType }> = z.input<O['response']>

export type Handler<O extends Operation> = (
  service: Service,
  caller: CallerOf<O['access']>,
  input: Input<O>,
) => Promise<Output<O>>

export interface Route {
  operation: Operation
  handler: Handler<Operation>
}

/** Ties an operation to the function that does it; the types of both must agree. */
export const route = <const O extends Operation>(operation: O, handler: Handler<O>): Route => ({
  operation,
  handler: handler as unknown as Handler<Operation>,
})

/** Keeps the literal types of an operation's parts. */
export const operation = <const O extends Operation>(definition: O): O => definition
