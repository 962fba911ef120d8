import type { z } from 'zod'
import type { ErrorCode, ErrorVariant, Failure } from '../lib/errors.ts'
import type { Access, CallerOf } from './caller.ts'

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
  /** What the path names, for the 404 of a parameter that its shape refuses. */
  resource?: string
  params?: Params
  query?: Query
  body?: Body
  /** Maximum size of the body in bytes, where `defaultBodyLimit` is not right. */
  bodyLimit?: number
  /** Whether every call creates something: the operation then honours `Idempotency-Key`. */
  creates?: boolean
  response: Response
  /** The list in the response that `format` in the query can turn into CSV or JSON Lines, with `next_cursor` as a header. */
  rows?: string
  /** Whether the response is JSON Lines: `response` is the shape of a line, and the handler returns pages of lines. */
  lines?: boolean
  /** Beside those that follow from the access level. */
  errors: readonly ErrorCode[]
  /** Documented variants that only this operation has, by their `data.code`. */
  ownErrors?: Readonly<Record<string, ErrorVariant>>
  /** What an invalid body is answered with, where it is not VALIDATION_ERROR. */
  refuseBody?: (problem: Failure) => Failure
}

/** Room for the largest body of almost every operation: lists of a few dozen origins, names and addresses. */
export const defaultBodyLimit = 64 * 1024

/** What the few operations that are about HTTP itself need of it. */
export interface HttpExchange {
  /** The Origin header. */
  origin: string | undefined
  /** Lets a page of that origin read the answer, also if it is a failure. */
  allowOrigin(origin: string): void
}

/** Path, query and body in one object: an MCP tool passes the same. */
export type Input<O> = (O extends { params: infer P extends z.ZodType } ? z.output<P> : unknown) &
  (O extends { query: infer Q extends z.ZodType } ? z.output<Q> : unknown) &
  (O extends { body: infer B extends z.ZodType } ? z.output<B> : unknown)

export type Output<O extends { response: z.ZodType }> = z.input<O['response']>

export type Handler<Needs, O extends Operation> = (
  service: Needs,
  caller: CallerOf<O['access']>,
  input: Input<O>,
  http: HttpExchange,
) => Promise<O extends { lines: true } ? AsyncIterable<Output<O>[]> : Output<O>>

/** `Needs` is the part of the server that the function works with. */
export interface Route<Needs> {
  operation: Operation
  handler: Handler<Needs, Operation>
}

/** Ties an operation to the function that does it; the types of both must agree. */
export const route = <Needs, const O extends Operation>(operation: O, handler: Handler<Needs, O>): Route<Needs> => ({
  operation,
  handler: handler as unknown as Handler<Needs, Operation>,
})

/** A body in which nothing is required may be left out. */
export const needsBody = ({ body }: Operation): boolean => body !== undefined && !body.safeParse({}).success

/** Keeps the literal types of an operation's parts. */
export const operation = <const O extends Operation>(definition: O): O => definition
