import { z } from 'zod'

/**
 * The errors that operations share. The key is `data.code`, which is unique; the outer code and the status
 * are not. Errors of a single capability are defined in that capability.
 */
export const errorTable = {
  VALIDATION_ERROR: variant(400, 'BAD_REQUEST', 'Invalid request data', {
    field: z.string().describe('Dotted path of the invalid field; empty for the whole body'),
    details: z.string().describe('Why the field is invalid'),
  }),
  AUTH_REQUIRED: variant(401, 'UNAUTHORIZED', 'Authentication required'),
  ACCESS_DENIED: variant(403, 'FORBIDDEN', 'Access denied', {
    reason: z.string().describe('Why you can’t do this'),
  }),
  ORG_CONTEXT_REQUIRED: variant(403, 'ORG_CONTEXT_REQUIRED', 'Organization context required'),
  PAYMENT_REQUIRED: variant(403, 'PAYMENT_REQUIRED', 'Subscription required'),
  RESOURCE_NOT_FOUND: variant(404, 'NOT_FOUND', 'Resource not found', {
    resource: z.string().describe('Type of the resource, such as `publishable_key`'),
    resourceId: z.string().describe('ID that wasn’t found'),
  }),
  DUPLICATE_RESOURCE: variant(409, 'CONFLICT', 'Resource already exists', {
    resource: z.string().describe('Type of the resource, such as `publishable_key`'),
  }),
  INTERNAL_ERROR: variant(500, 'INTERNAL_SERVER_ERROR', 'An Inlay error occurred'),
} as const

export type ErrorCode = keyof typeof errorTable

/** A row of an error table; `code` is the outer code. */
export interface ErrorVariant {
  status: number
  code: string
  message: string
  data: z.ZodRawShape
}

export function variant<Data extends z.ZodRawShape = Record<never, never>>(
  status: number,
  code: string,
  message: string,
  data: Data = {} as Data,
) {
  return { status, code, message, data }
}

/** The part of a failure that is sent to the caller. Internal details stay in `cause`, which is only logged. */
export interface Envelope {
  defined: boolean
  code: string
  status: number
  message: string
  data?: Record<string, unknown>
}

interface FailureOptions {
  cause?: unknown
  headers?: Record<string, string>
  advice?: string | undefined
  /** Another service doesn't work, and Inlay does: for the log. */
  isElsewhere?: boolean
}

export class Failure extends Error {
  override name = 'Failure'
  readonly envelope: Envelope
  readonly headers: Record<string, string>
  /** Tells assistants what to do about the failure. Kept out of the envelope, whose fields are fixed. */
  readonly advice: string | undefined
  readonly isElsewhere: boolean

  constructor(envelope: Envelope, options: FailureOptions = {}) {
    super(envelope.message, { cause: options.cause })
    this.envelope = envelope
    this.headers = options.headers ?? {}
    this.advice = options.advice
    this.isElsewhere = options.isElsewhere ?? false
  }
}

/** A failure that isn't in an error table: `defined` is false. */
export function failure(
  status: number,
  code: string,
  message: string,
  options: { data?: Record<string, unknown>; cause?: unknown; headers?: Record<string, string> } = {},
): Failure {
  const { data, ...rest } = options
  return new Failure({ defined: false, code, status, message, ...(data && { data }) }, rest)
}

function defined<Code extends ErrorCode>(
  code: Code,
  data: z.infer<z.ZodObject<(typeof errorTable)[Code]['data']>>,
  options: { message?: string } & FailureOptions = {},
): Failure {
  return fail(errorTable[code], code, data, options)
}

/** A failure of a documented variant, from `errorTable` or from a capability's own table. */
export function fail(
  { status, code: outer, message }: ErrorVariant,
  code: string,
  data: Record<string, unknown> = {},
  { message: own = message, ...options }: { message?: string } & FailureOptions = {},
): Failure {
  return new Failure({ defined: true, code: outer, status, message: own, data: { code, ...data } }, options)
}

export const invalid = (field: string, details: string, message?: string) =>
  defined('VALIDATION_ERROR', { field, details }, message ? { message } : {})
export const authRequired = (cause?: unknown) => defined('AUTH_REQUIRED', {}, { cause })
export const accessDenied = (reason: string) => defined('ACCESS_DENIED', { reason })
export const orgContextRequired = () => defined('ORG_CONTEXT_REQUIRED', {})
export const paymentRequired = (message?: string) => defined('PAYMENT_REQUIRED', {}, message ? { message } : {})
export const notFound = (resource: string, resourceId: string, advice?: string) =>
  defined('RESOURCE_NOT_FOUND', { resource, resourceId }, { advice })
export const duplicate = (resource: string) => defined('DUPLICATE_RESOURCE', { resource })
export const internalError = (cause: unknown) => defined('INTERNAL_ERROR', {}, { cause })

export const payloadTooLarge = (limit: number, isLastOfConnection = false) =>
  failure(413, 'PAYLOAD_TOO_LARGE', `The request body is larger than ${limit} bytes`, {
    headers: isLastOfConnection ? { connection: 'close' } : {},
  })
export const serviceUnavailable = (message: string, cause?: unknown) =>
  failure(503, 'SERVICE_UNAVAILABLE', message, { cause, headers: { 'retry-after': '5' } })
/** Whether a store is unavailable, as opposed to a fault in the request or in the program. */
export const isUnavailable = (error: unknown): boolean =>
  error instanceof Failure && error.envelope.code === 'SERVICE_UNAVAILABLE'
