import { z } from 'zod'
import { type ErrorCode, type ErrorVariant, errorTable } from './errors.ts'
import { idempotencyKey } from './idempotency.ts'
import { type Access, needsBody, type Operation } from './operation.ts'

/** The interface description: OpenAPI 3.1.1, read off the operations. */
export function describeApi(operations: readonly Operation[]): Record<string, unknown> {
  const schemas: Record<string, unknown> = {}
  const paths: Record<string, Record<string, unknown>> = {}
  for (const operation of operations) {
    const path = paths[operation.path] ?? {}
    path[operation.method] = describeOperation(operation, schemas)
    paths[operation.path] = path
  }
  for (const [code, variant] of operations.flatMap(errorsOf)) schemas[errorName(code)] = describeError(code, variant)
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
    tags: tags.map((name) => ({ name, ...(name in tagTexts && { description: tagTexts[name] }) })),
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

const tagTexts: Record<string, string> = {
  Users: 'The person behind the token.',
  Organizations: 'The tenants. Everything but people belongs to exactly one of them.',
  Members: 'Who belongs to the token’s organization, and as what.',
  Invitations: 'Addresses that become members when their owners sign in.',
  'Publishable keys': 'Keys that a web page shows openly to load the widget.',
  Tickets: 'How an embedded widget gets in.',
  'Identity provider': 'Whose users the widget lets in, and on which pages.',
  Sites: 'The origins that the widget is embedded in.',
  'End users': 'The people who use the widget.',
  Usage: 'Tokens spent, per day, per site and per end user.',
  Threads: 'Conversations: what is known about them, not what was said.',
  Diagnostics: 'Who was turned away, and what would put it right.',
  Skills: 'Instructions for agents: the organization’s own, and those that come with Inlay.',
  Connectors: 'Remote tool servers, called as the person who asks.',
  Hub: 'The tools of the pages that the caller has open.',
  Governance: 'The provider that decides on tool calls.',
  Plans: 'What organizations may use, and how much of it.',
  Subscriptions: 'What the billing provider says an organization pays for.',
  Directories: 'Where an organization keeps its people; they come over SCIM.',
  'Audit events': 'Every change, in a chain that shows when somebody tampered with it.',
  'Code hosting': 'The organization’s own app on GitHub.',
}

function describeOperation(operation: Operation, schemas: Record<string, unknown>) {
  const { access, body } = operation
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
    description: [operation.description, accessText[access]].filter(Boolean).join(' '),
    'x-access': access,
    ...(access === 'public' && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { required: needsBody(operation), content: json(schema(body, 'input')) } }),
    responses: {
      200: { description: 'Success', content: json(schema(operation.response, 'output')) },
      ...describeErrors(errorsOf(operation)),
      default: { description: 'Any other failure', content: json({ $ref: '#/components/schemas/UndefinedError' }) },
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
function errorsOf({ access, body, query, errors, ownErrors, refuseBody }: Operation): [string, ErrorVariant][] {
  const possible = new Set<ErrorCode>(errors)
  if ((body && !refuseBody) || query) possible.add('VALIDATION_ERROR')
  if (access !== 'public') possible.add('AUTH_REQUIRED')
  if (access === 'org' || access === 'admin') possible.add('ORG_CONTEXT_REQUIRED').add('ACCESS_DENIED')
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
    const description = variants.map(([, { message }]) => message).join(', or ')
    return [status, { description, content: json({ oneOf: refs }) }]
  })
  return Object.fromEntries(responses)
}

const errorName = (code: string): string =>
  `${code
    .toLowerCase()
    .replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())
    .replace(/Error$/, '')}Error`

function describeError(code: string, { status, code: outer, message, data }: ErrorVariant) {
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

function describeIdempotencyKey() {
  const { name, description, pattern } = idempotencyKey
  return { name, in: 'header', required: false, description, schema: { type: 'string', pattern } }
}

/** Types with an id become components; the rest stays where it is. */
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

const json = (schema: unknown) => ({ 'application/json': { schema } })
