import type { z } from 'zod'
import type { ErrorCode, ErrorVariant, Failure } from '../lib/errors.ts'
import type { Access, AccessRule, CallerOf } from './caller.ts'
import type { Paged } from './cursors.ts'

type Shape = z.ZodObject

/** One REST operation as data. The router, the access check, OpenAPI and the tests are all derived from it. */
export interface Operation<
  A extends Access = Access,
  Params extends Shape = Shape,
  Query extends Shape = Shape,
  Body extends Shape = Shape,
  Response extends z.ZodType = z.ZodType,
> extends AccessRule {
  id: string
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** Relative to `/api`, with parameters in braces. */
  path: string
  access: A
  tag: string
  summary: string
  description?: string
  /** Type of the resource in the path, for the 404 of an invalid parameter. */
  resource?: string
  params?: Params
  query?: Query
  body?: Body
  /** Maximum size of the body in bytes. Default: `defaultBodyLimit`. */
  bodyLimit?: number
  /** Whether every call creates something. If so, the operation supports `Idempotency-Key`. */
  creates?: boolean
  response: Response
  /**
   * Whether the cursor of the next page is only in the `Next-Cursor` header. If so, the handler returns it beside the
   * body. A `next_cursor` in the body is sent in the header too.
   */
  pages?: boolean
  /** The list in the response that `?format=` returns as CSV or JSON Lines. */
  rows?: string
  /**
   * Whether the response is JSON Lines. If so, `response` is the shape of a line, and the handler returns pages of
   * lines.
   */
  lines?: boolean
  /** Media types of the response other than JSON. If set, the handler returns a `TextDocument`. */
  documents?: readonly string[]
  /** In addition to those that follow from the access level. */
  errors: readonly ErrorCode[]
  /** Documented errors of this operation only, by their `data.code`. */
  ownErrors?: Readonly<Record<string, ErrorVariant>>
  /** Returns the error for an invalid body, if it isn't VALIDATION_ERROR. */
  refuseBody?: (problem: Failure) => Failure
  /** A request and its response, for the API reference. */
  example: { request?: unknown; response: unknown }
}

/** Enough for the bodies of almost every operation: lists of a few dozen origins, names and addresses. */
export const defaultBodyLimit = 64 * 1024

/** For the few operations that depend on HTTP itself. */
export interface HttpExchange {
  /** The Origin header. */
  origin: string | undefined
  /** The DPoP header. */
  proof: string | undefined
  /** Lets pages of that origin read the response, even if it is an error. */
  allowOrigin(origin: string): void
}

/** A response that is sent while it is made. */
export interface TextDocument {
  contentType: string
  parts: AsyncIterable<string>
}

/** Path, query and body in one object, so that MCP tools can pass the same input. */
export type Input<O> = (O extends { params: infer P extends z.ZodType } ? z.output<P> : unknown) &
  (O extends { query: infer Q extends z.ZodType } ? z.output<Q> : unknown) &
  (O extends { body: infer B extends z.ZodType } ? z.output<B> : unknown)

export type Output<O extends { response: z.ZodType }> = z.input<O['response']>

type Handler<Needs, O extends Operation> = (
  service: Needs,
  caller: CallerOf<O['access'], O['usersOnly']>,
  input: Input<O>,
  http: HttpExchange,
) => Promise<
  O extends { lines: true }
    ? AsyncIterable<Output<O>[]>
    : O extends { documents: readonly string[] }
      ? TextDocument
      : O extends { pages: true }
        ? Paged<Output<O>>
        : Output<O>
>

/** `Needs` is the part of the server that the handler uses. */
export interface Route<Needs> {
  operation: Operation
  handler: Handler<Needs, Operation>
}

type OperationsOf<Contract> = {
  [Name in keyof Contract as Contract[Name] extends Operation ? Name : never]: Extract<Contract[Name], Operation>
}

/**
 * Ties the operations of a contract to their handlers, which have the same names. A handler that is missing, unknown or
 * of another type is a compile error.
 */
export const bind = <Needs, Contract extends object>(
  contract: Contract,
  handlers: { [Name in keyof OperationsOf<Contract>]: Handler<Needs, OperationsOf<Contract>[Name]> },
): Route<Needs>[] =>
  Object.entries(handlers).map(([name, handler]) => ({
    operation: (contract as Record<string, Operation>)[name] as Operation,
    handler: handler as Handler<Needs, Operation>,
  }))

/** The body may be omitted if none of its fields is required. */
export const needsBody = ({ body }: Operation): boolean => body !== undefined && !body.safeParse({}).success

type Frozen<T> = T extends object ? { readonly [Key in keyof T]: Frozen<T[Key]> } : T

type ExampleOf<O extends Operation> = { readonly response: Frozen<Output<O>> } & (O extends {
  body: infer B extends Shape
}
  ? { readonly request: Frozen<z.input<B>> }
  : { readonly request?: never })

/** Keeps the literal types of an operation's definition, and checks that its example has the types of its schemas. */
export const operation = <const O extends Operation>(definition: O & { example: ExampleOf<O> }): O => definition
