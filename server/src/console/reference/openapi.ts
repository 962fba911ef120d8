import { z } from 'zod'
import type { Access } from '../../kernel/foundation/caller.ts'
import { needsBody, type Operation } from '../../kernel/foundation/operation.ts'
import { idempotencyKey } from '../../kernel/http/idempotency.ts'
import { rowTypes } from '../../kernel/http/row-formats.ts'
import { type ErrorCode, type ErrorVariant, errorTable } from '../../kernel/lib/errors.ts'

/** Generates the OpenAPI 3.1.1 document from the operations. */
export function describeApi(
  operations: readonly Operation[],
  tagTexts: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const schemas: Record<string, unknown> = {}
  const paths: Record<string, Record<string, unknown>> = {}
  const sorted = operations.toSorted(byPath)
  for (const operation of sorted) {
    const path = paths[operation.path] ?? {}
    path[operation.method] = describeOperation(operation, schemas)
    paths[operation.path] = path
  }
  for (const [code, variant] of sorted.flatMap(errorsOf)) schemas[errorName(code)] ??= describeError(code, variant)
  schemas.UndefinedError = undefinedError
  return {
    openapi: '3.1.1',
    info: {
      title: 'Inlay',
      version: '1.0.0',
      description: introduction,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/api' }],
    security: [{ bearer: [] }],
    tags: Object.entries(tagTexts).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description:
            'An access token from Inlay’s authorization server, or the key of a service account (`sk_live_…`). Organization operations act on the organization in the token’s `org_id` (or `organization_id`) claim, which you choose when you sign in, or on the service account’s organization.',
        },
      },
      schemas: Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1))),
    },
  }
}

const methods: Operation['method'][] = ['get', 'post', 'put', 'patch', 'delete']

/** An order that doesn't change when operations move to another file or room. */
const byPath = (a: Operation, b: Operation): number =>
  a.path === b.path ? methods.indexOf(a.method) - methods.indexOf(b.method) : a.path < b.path ? -1 : 1

const introduction =
  'Administer organizations and the agents that they embed in their web applications. Requests and responses are JSON. Success is always status 200, and every error has the same envelope. IDs are UUIDs, and times are UTC in the form `2026-11-15T09:30:00.000Z`. If a list has another page, its cursor is in the `Next-Cursor` header: send it as `cursor` to get that page.'

function describeOperation(operation: Operation, schemas: Record<string, unknown>) {
  const { access, body, example } = operation
  const schema = (type: z.ZodType, io: 'input' | 'output') => describeSchema(type, io, schemas)
  const parameters = [
    ...describeParameters('path', operation.params, schema),
    ...describeParameters('query', operation.query, schema),
    ...(operation.creates ? [describeIdempotencyKey()] : []),
  ]
  return {
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    description: [operation.description, accessText[access], refusalText(operation)].filter(Boolean).join(' '),
    'x-access': access,
    ...(access === 'public' && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: { required: needsBody(operation), content: json(schema(body, 'input'), example.request) },
    }),
    responses: {
      200: {
        description: 'The request succeeded.',
        ...(hasCursor(operation) && { headers: { 'Next-Cursor': nextCursor } }),
        content: describeContent(operation, json(schema(operation.response, 'output'), example.response)),
      },
      ...describeErrors(errorsOf(operation)),
      default: {
        description: 'Any other error, such as 413 for a body that is too large or 503 while the server restarts.',
        content: json({ $ref: '#/components/schemas/UndefinedError' }),
      },
    },
  }
}

const hasCursor = ({ query, body }: Operation): boolean => 'cursor' in { ...query?.shape, ...body?.shape }

const nextCursor = {
  description: 'The `cursor` of the next page. Missing on the last page.',
  schema: { type: 'string' },
}

const accessText: Record<Access, string> = {
  public: 'Needs no access token.',
  user: 'Needs any valid access token.',
  org: 'Needs an access token for an organization that you are a member of.',
  admin: 'Needs an access token for an organization in which you have the admin role.',
}

const refusalText = ({ usersOnly }: Operation) => usersOnly && `Service accounts can’t do this: ${usersOnly}.`

/** The errors that an operation declares, and those that follow from its access level and its input. */
function errorsOf({
  access,
  usersOnly,
  body,
  query,
  errors,
  ownErrors,
  refuseBody,
}: Operation): [string, ErrorVariant][] {
  const possible = new Set<ErrorCode>(errors)
  if ((body && !refuseBody) || query) possible.add('VALIDATION_ERROR')
  if (access !== 'public') possible.add('AUTH_REQUIRED')
  if (access === 'org' || access === 'admin') possible.add('ORG_CONTEXT_REQUIRED').add('ACCESS_DENIED')
  if (usersOnly) possible.add('ACCESS_DENIED')
  possible.add('INTERNAL_ERROR')
  const shared = Object.entries(errorTable).filter(([code]) => possible.has(code as ErrorCode))
  return [...shared, ...Object.entries(ownErrors ?? {})]
}

function describeErrors(errors: readonly [string, ErrorVariant][]) {
  const byStatus = Object.groupBy(errors, ([, { status }]) => status)
  const responses = Object.entries(byStatus).map(([status, variants = []]) => {
    const refs = [...variants.map(([code]) => errorName(code)), 'UndefinedError'].map((name) => ({
      $ref: `#/components/schemas/${name}`,
    }))
    const description = variants.map(([code, { message }]) => `\`${code}\`: ${errorTexts[code] ?? message}.`).join(' ')
    return [status, { description, content: json({ oneOf: refs }) }]
  })
  return Object.fromEntries(responses)
}

/** Explains each error in more detail than its message. */
const errorTexts: Readonly<Record<string, string>> = {
  VALIDATION_ERROR: 'a field is missing or invalid; `data.field` names it and `data.details` says why',
  AUTH_REQUIRED: 'the access token is missing, invalid, expired or revoked; sign in again',
  ACCESS_DENIED: 'you can’t do this, for example because it needs the admin role; `data.reason` says why',
  ORG_CONTEXT_REQUIRED: 'the access token has no organization; sign in again and choose one',
  PAYMENT_REQUIRED: 'the plan doesn’t include this, or its limit is reached; `message` says which',
  RESOURCE_NOT_FOUND: 'the resource doesn’t exist, or belongs to another organization',
  DUPLICATE_RESOURCE: 'the resource already exists, or conflicts with another one; `data.resource` is its type',
  INTERNAL_ERROR: 'something failed in Inlay; try again, and report it if it persists',
}

const errorName = (code: string): string =>
  `${code
    .toLowerCase()
    .replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())
    .replace(/Error$/, '')}Error`

function describeError(code: string, { status, code: outer, message, data }: ErrorVariant) {
  const shape = z.strictObject({
    defined: z.literal(true).describe('True: this error is documented'),
    code: z.literal(outer).describe('Type of the error'),
    status: z.literal(status).describe('HTTP status'),
    message: z.string().default(message).describe('Human-readable explanation'),
    data: z
      .strictObject({ code: z.literal(code).describe('The code to handle in your program'), ...data })
      .describe('Details of the error'),
  })
  return clean(z.toJSONSchema(shape))
}

const undefinedError = clean(
  z.toJSONSchema(
    z.object({
      defined: z.literal(false).describe('False: this error is not documented for the operation'),
      code: z.string().describe('Type of the error'),
      status: z.number().describe('HTTP status'),
      message: z.string().describe('Human-readable explanation'),
      data: z.unknown().optional().describe('Details of the error, if there are any'),
    }),
    { io: 'input' },
  ),
)

type Describe = (type: z.ZodType, io: 'input' | 'output') => unknown

function describeParameters(place: 'path' | 'query', shape: z.ZodObject | undefined, describe: Describe) {
  return Object.entries(shape?.shape ?? {}).map(([name, type]) => {
    const { description } = type as z.ZodType
    return {
      name,
      in: place,
      required: place === 'path' || !(type as z.ZodType).safeParse(undefined).success,
      ...(description && { description }),
      schema: describe(type as z.ZodType, 'input'),
    }
  })
}

function describeIdempotencyKey() {
  const { name, description, pattern } = idempotencyKey
  return { name, in: 'header', required: false, description, schema: { type: 'string', pattern } }
}

/** Types with an id become components; others stay inline. */
function describeSchema(type: z.ZodType, io: 'input' | 'output', schemas: Record<string, unknown>): unknown {
  const { $defs, ...root } = clean(z.toJSONSchema(type, { io }))
  Object.assign(schemas, $defs)
  return root
}

function clean(schema: unknown): Record<string, unknown> {
  const text = JSON.stringify(schema, (key, value) =>
    key === '$schema' || (key === 'id' && typeof value === 'string') ? undefined : value,
  )
  return JSON.parse(text.replaceAll('"#/$defs/', '"#/components/schemas/'))
}

/** Describes responses in formats other than JSON as text. */
function describeContent(
  { rows, lines, documents = [] }: Operation,
  asJson: Record<'application/json', object>,
): object {
  // OpenAPI 3.1 can't describe lines, so the schema and the example are for a single line.
  if (lines) return { 'application/jsonl': asJson['application/json'] }
  const types = [...(rows ? rowTypes : []), ...documents]
  return { ...asJson, ...Object.fromEntries(types.map((type) => [type, { schema: { type: 'string' } }])) }
}

const json = (schema: unknown, example?: unknown) => ({ 'application/json': { schema, example } })
