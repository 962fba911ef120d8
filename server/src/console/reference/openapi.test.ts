import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { expect, test } from 'vitest'
import { useTestService } from '../../../test/harness.ts'
import { api, tags } from '../../api.ts'
import type { Access } from '../../kernel/foundation/caller.ts'
import type { Operation } from '../../kernel/foundation/operation.ts'
import { type ErrorCode, errorTable } from '../../kernel/lib/errors.ts'
import { idpTypes } from '../../visitors/identity-provider/issuers.ts'
import { describeApi } from './openapi.ts'

interface Schema {
  $ref?: string
  oneOf?: Schema[]
  properties: { defined: { const: boolean }; status: { const: number }; data: Schema; code: { const: string } }
}

type Body = { schema: Schema; example?: unknown }
type Content = { 'application/json': Body; 'application/jsonl'?: Body }

interface Described {
  operationId: string
  tags: string[]
  summary: string
  description: string
  parameters?: { name: string; description?: string }[]
  requestBody?: {
    content: {
      'application/json': { schema: { properties: Record<string, { description: string }> }; example: unknown }
    }
  }
  'x-access': Access
  security?: unknown[]
  responses: Record<string, { content: Content }>
}

interface Specification {
  openapi: string
  info: { version: string }
  tags: { name: string }[]
  paths: Record<string, Record<string, Described>>
  components: { schemas: Record<string, Schema> }
}

const operations = api.map(({ operation }) => operation)
const specification = describeApi(operations, tags) as unknown as Specification
const described = ({ path, method }: Operation) => specification.paths[path]?.[method] as Described

const resolve = (ref: string) => {
  const name = ref.replace('#/components/schemas/', '')
  return specification.components.schemas[name]
}

const errorVariants = ({ responses }: Described, status: string): Schema[] =>
  (responses[status]?.content['application/json'].schema.oneOf ?? []).map(({ $ref = '' }) => resolve($ref) as Schema)

const withoutDescriptions = (schemas: Schema[]): unknown =>
  JSON.parse(JSON.stringify(schemas, (key, value) => (key === 'description' ? undefined : value)))

test('it is OpenAPI 3.1.1, with API version 1.0.0', () => {
  expect(specification).toMatchObject({ openapi: '3.1.1', info: { version: '1.0.0' } })
})

const contentOf = ({ lines }: Operation, response: { content: Content } | undefined) =>
  response?.content[lines ? 'application/jsonl' : 'application/json']

test('it is valid and passes the linter', async () => {
  const problems = await lintFromString({
    source: JSON.stringify(specification),
    config: await createConfig({ extends: ['recommended'] }),
  })
  expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual([])
})

test('every reference has a schema', () => {
  const refs = [...JSON.stringify(specification).matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref = '']) => ref)
  expect(refs).not.toEqual([])
  for (const ref of refs) expect(resolve(ref), ref).toBeDefined()
})

test('operation ids are unique', () => {
  const ids = operations.map(({ id }) => id)
  expect(ids).toEqual([...new Set(ids)])
})

test('the server serves the same document as openapi.json', async () => {
  const { fetch } = await useTestService()
  const response = await fetch('/api/spec.json')
  const committed = readFileSync(join(import.meta.dirname, '../../../../openapi.json'), 'utf8')
  expect(response.headers.get('content-type')).toBe('application/json')
  expect(await response.json()).toEqual(JSON.parse(committed))
})

const errorsOfAccess: Record<Access, ErrorCode[]> = {
  public: [],
  user: ['AUTH_REQUIRED'],
  org: ['AUTH_REQUIRED', 'ORG_CONTEXT_REQUIRED', 'ACCESS_DENIED'],
  admin: ['AUTH_REQUIRED', 'ORG_CONTEXT_REQUIRED', 'ACCESS_DENIED'],
}

test.each(operations)('$id documents its access level and its errors', (operation) => {
  const description = described(operation)
  expect(description).toMatchObject({
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    'x-access': operation.access,
  })
  expect(specification.tags.map(({ name }) => name)).toContain(operation.tag)
  expect(description.security).toEqual(operation.access === 'public' ? [] : undefined)

  const { 200: success, default: other, ...failures } = description.responses
  expect(other?.content['application/json'].schema.$ref).toMatch(/UndefinedError$/)
  expect(contentOf(operation, success)?.schema).toBeDefined()
  const found = Object.keys(failures).flatMap((status) =>
    errorVariants(description, status)
      .filter(({ properties }) => properties.defined.const)
      .map(({ properties }) => [Number(status), properties.status.const, properties.data.properties.code.const]),
  )
  const codes = new Set<ErrorCode>([...operation.errors, ...errorsOfAccess[operation.access], 'INTERNAL_ERROR'])
  if (operation.usersOnly) {
    codes.add('ACCESS_DENIED')
    expect(description.description).toContain(`Service accounts can’t do this: ${operation.usersOnly}.`)
  }
  if ((operation.body && !operation.refuseBody) || operation.query) codes.add('VALIDATION_ERROR')
  const variants = [
    ...[...codes].map((code) => [code, errorTable[code]] as const),
    ...Object.entries(operation.ownErrors ?? {}),
  ]
  const expected = variants.map(([code, { status }]) => [status, status, code])
  expect(found.toSorted()).toEqual(expected.toSorted())
})

test('the document is the same in whatever order the operations are listed', () => {
  const reversed = describeApi(operations.toReversed(), tags)
  expect(JSON.stringify(reversed) === JSON.stringify(specification)).toBe(true)
})

test.each(operations)('$id has a description, and so do its parameters', (operation) => {
  const { description, parameters = [] } = described(operation)
  expect(operation.description, 'a description in addition to its access level').toMatch(/^.{40,}\.$/s)
  expect(description).toContain(operation.description)
  const undescribed = parameters.filter((parameter) => !parameter.description).map(({ name }) => name)
  expect(undescribed, 'parameters without a description').toEqual([])
})

/** Paths of all properties without a description. */
function undescribedIn(node: unknown, path: string): string[] {
  if (typeof node !== 'object' || node === null) return []
  const { properties = {} } = node as { properties?: Record<string, { description?: string }> }
  const own = Object.entries(properties).filter(([, property]) => !property.description)
  return [
    ...own.map(([name]) => `${path}.${name}`),
    ...Object.entries(node).flatMap(([key, child]) =>
      key === 'example' ? [] : undescribedIn(child, `${path}/${key}`),
    ),
  ]
}

test('every property is described', () => {
  expect(undescribedIn(specification.components.schemas, 'schemas')).toEqual([])
  expect(undescribedIn(specification.paths, 'paths')).toEqual([])
})

test.each(operations)('$id has valid examples of its request and its response', (operation) => {
  const { requestBody, responses } = described(operation)
  const request = requestBody?.content['application/json'].example
  const response = contentOf(operation, responses[200])?.example
  if (operation.body)
    expect(operation.body.safeParse(request), JSON.stringify(request)).toMatchObject({ success: true })
  expect(operation.response.safeParse(response), JSON.stringify(response)).toMatchObject({ success: true })
})

test.each(['updateIdentityProviderConfig', 'testIdentityProvider'])('%s explains the neutral vendor names', (id) => {
  const operation = operations.find((one) => one.id === id) as Operation
  const { description } = described(operation).requestBody?.content['application/json'].schema.properties.idp_type ?? {}
  expect(description).toContain('`idp_vendor_1` to `idp_vendor_8`')
  for (const type of idpTypes) expect(description).toContain(`\`${type}\``)
})

test('the 403 of an admin operation lists its variants with their fields', () => {
  const operation = operations.find(({ id }) => id === 'updateMember') as Operation
  const envelope = (code: string, message: string, data: Record<string, object>) => ({
    type: 'object',
    properties: {
      defined: { type: 'boolean', const: true },
      code: { type: 'string', const: code },
      status: { type: 'number', const: 403 },
      message: { type: 'string', default: message },
      data: { type: 'object', properties: data, required: Object.keys(data), additionalProperties: false },
    },
    required: ['defined', 'code', 'status', 'message', 'data'],
    additionalProperties: false,
  })
  const variants = withoutDescriptions(errorVariants(described(operation), '403'))
  expect(variants).toEqual([
    envelope('FORBIDDEN', 'Access denied', {
      code: { type: 'string', const: 'ACCESS_DENIED' },
      reason: { type: 'string' },
    }),
    envelope('ORG_CONTEXT_REQUIRED', 'Organization context required', {
      code: { type: 'string', const: 'ORG_CONTEXT_REQUIRED' },
    }),
    {
      type: 'object',
      properties: {
        defined: { type: 'boolean', const: false },
        code: { type: 'string' },
        status: { type: 'number' },
        message: { type: 'string' },
        data: {},
      },
      required: ['defined', 'code', 'status', 'message'],
    },
  ])
})
