import { z } from 'zod'
import { type ErrorCode, errorTable } from './errors.ts'
import type { Access, Operation } from './operation.ts'

/** The interface description: OpenAPI 3.1.1, read off the operations. */
export function describeApi(operations: readonly Operation[]): Record<string, unknown> {
  const schemas: Record<string, unknown> = {}
  const paths: Record<string, Record<string, unknown>> = {}
  for (const operation of operations) {
    const path = paths[operation.path] ?? {}
    path[operation.method] = describeOperation(operation, schemas)
    paths[operation.path] = path
  }
  for (const code of Object.keys(errorTable) as ErrorCode[]) schemas[errorName(code)] = describeError(code)
  schemas.UndefinedError = undefinedError
  const tags = [...new Set(operations.map((operation) => operation.tag))]
  return {
    openapi: '3.1.1',
    info: {
      title: 'Inlay',
      version: '1.0.0',
      description: 'Organization administration and embedded agents. Every failure has the same envelope.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/api' }],
    security: [{ bearer: [] }],
    tags: tags.map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: 'An access token. Organization operations need its `org_id` (or `organization_id`) claim.',
        },
      },
      schemas: Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1))),
    },
  }
}

function describeOperation(operation: Operation, schemas: Record<string, unknown>) {
  const { access, body } = operation
  const schema = (type: z.ZodType, io: 'input' | 'output') => describeSchema(type, io, schemas)
  const parameters = [
    ...describeParameters('path', operation.params, schema),
    ...describeParameters('query', operation.query, schema),
  ]
  return {
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    description: [operation.description, accessText[access]].filter(Boolean).join(' '),
    'x-access': access,
    ...(access === 'public' && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { required: true, content: json(schema(body, 'input')) } }),
    responses: {
      200: { description: 'Success', content: json(schema(operation.response, 'output')) },
      ...describeErrors(errorsOf(operation)),
    },
  }
}

const accessText: Record<Access, string> = {
  public: 'Open to anybody.',
  user: 'Needs a signed-in person.',
  org: 'Needs a token that carries an organization.',
  admin: 'Needs the admin role in the token’s organization.',
}

/** The errors that an operation declares and those that its access level and its input bring. */
export function errorsOf({ access, body, query, errors }: Operation): ErrorCode[] {
  const possible = new Set<ErrorCode>(errors)
  if (body || query) possible.add('VALIDATION_ERROR')
  if (access !== 'public') possible.add('AUTH_REQUIRED')
  if (access === 'org' || access === 'admin') possible.add('ORG_CONTEXT_REQUIRED').add('ACCESS_DENIED')
  possible.add('INTERNAL_ERROR')
  return (Object.keys(errorTable) as ErrorCode[]).filter((code) => possible.has(code))
}

function describeErrors(codes: readonly ErrorCode[]) {
  const byStatus = Object.groupBy(codes, (code) => errorTable[code].status)
  const responses = Object.entries(byStatus).map(([status, variants = []]) => {
    const refs = [...variants.map(errorName), 'UndefinedError'].map((name) => ({
      $ref: `#/components/schemas/${name}`,
    }))
    const description = variants.map((code) => errorTable[code].message).join(', or ')
    return [status, { description, content: json({ oneOf: refs }) }]
  })
  return Object.fromEntries(responses)
}

const errorName = (code: ErrorCode): string =>
  `${code
    .toLowerCase()
    .replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())
    .replace(/Error$/, '')}Error`

function describeError(code: ErrorCode) {
  const { status, code: outer, message, data } = errorTable[code]
  const shape = z.strictObject({
    defined: z.literal(true),
    code: z.literal(outer),
    status: z.literal(status),
    message: z.string().default(message),
    data: z.strictObject({ code: z.literal(code), ...data }),
  })
  return clean(z.toJSONSchema(shape))
}

const undefinedError = clean(
  z.toJSONSchema(
    z.object({
      defined: z.literal(false),
      code: z.string(),
      status: z.number(),
      message: z.string(),
      data: z.unknown().optional(),
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

/** Types with an id become components; the rest stays where it is. */
function describeSchema(type: z.ZodType, io: 'input' | 'output', schemas: Record<string, unknown>): unknown {
  const { $defs = {}, ...root } = clean(z.toJSONSchema(type, { io })) as Record<string, unknown>
  for (const [name, definition] of Object.entries($defs as Record<string, unknown>)) schemas[name] = clean(definition)
  const name = type.meta()?.id
  if (!name) return root
  schemas[name] = root
  return { $ref: `#/components/schemas/${name}` }
}

function clean(schema: unknown): Record<string, unknown> {
  const text = JSON.stringify(schema, (key, value) =>
    key === '$schema' || (key === 'id' && typeof value === 'string') ? undefined : value,
  )
  return JSON.parse(text.replaceAll('"#/$defs/', '"#/components/schemas/'))
}

const json = (schema: unknown) => ({ 'application/json': { schema } })
