import { expect, test } from 'vitest'
import { z } from 'zod'
import { api, tags } from '../api.ts'
import { serveApiDocs } from './api-docs.ts'
import { describeApi } from './openapi.ts'

const operations = api.map(({ operation }) => operation)
const publicUrl = 'https://inlay.example.com'

const render = async (specification: object) => {
  const response = await serveApiDocs(() => specification, publicUrl).request('/')
  return { html: await response.text(), headers: response.headers }
}

/** Renders the page for one operation whose request body has the given schema. */
const renderBody = async (schema: object, schemas: object = {}) => {
  const json = (content: object) => ({ content: { 'application/json': { schema: content } } })
  const operation = {
    operationId: 'send',
    tags: ['Things'],
    summary: 'Send',
    'x-access': 'user',
    requestBody: json(schema),
    responses: { 200: json({ type: 'object', properties: { ok: { type: 'boolean' } } }) },
  }
  const { html } = await render({
    info: { title: 'Test', version: '1.0.0', description: 'A test.' },
    servers: [{ url: '/api' }],
    tags: [{ name: 'Things' }],
    paths: { '/things': { post: operation } },
    components: { schemas },
  })
  return html
}

/** The rows of the table with this caption, as text. */
const rowsOf = (html: string, caption: string): string[] => {
  const table = html.split('<table>').find((part) => part.startsWith(`<caption>${caption}`)) ?? ''
  const [body = ''] = table.split('</tbody>')
  return body
    .split('<tr>')
    .slice(2)
    .map((row) =>
      row
        .replace(/<[^>]+>/g, ' ')
        .replace(/\s+/g, ' ')
        .replaceAll('&#34;', '"')
        .trim(),
    )
}

const exampleOf = (html: string): unknown => {
  const [, text = ''] = /-d &#39;(.*?)&#39;<\/pre>/s.exec(html) ?? []
  return JSON.parse(text.replaceAll('&#34;', '"').replaceAll('&#39;', "'"))
}

test('lists every operation with its anchor, its path and a command to copy', async () => {
  const { html } = await render(describeApi(operations, tags))
  for (const { id, method, path, query } of operations) {
    expect(html).toContain(`<article id="${id}"`)
    expect(html).toContain(`<a href="#${id}">${id}</a>`)
    expect(html).toContain(`<code>${path}</code>`)
    const address = `${publicUrl}/api${path.replace(/\{(\w+)\}/g, (_, name) => `$${name.toUpperCase()}`)}`
    const required = Object.entries(query?.shape ?? {}).filter(([, type]) => !z.safeParse(type, undefined).success)
    const asked = required.map(([name]) => `${name}=$${name.toUpperCase()}`).join('&#38;')
    expect(html).toContain(`curl -X ${method.toUpperCase()} &#34;${address}${asked && `?${asked}`}&#34;`)
  }
})

test('explains how to get a token', async () => {
  const { html } = await render(describeApi(operations, tags))
  expect(html).toContain('npx inlay token --email you@example.com --org your-organization')
})

test('contains no scripts, and forbids them', async () => {
  const { html, headers } = await render(describeApi(operations, tags))
  expect(headers.get('content-security-policy')).toContain("default-src 'none'; style-src 'unsafe-inline'")
  expect(html).not.toMatch(/<script|\son\w+=|javascript:/i)
})

test('every link has a target on the page, and ids are unique', async () => {
  const { html } = await render(describeApi(operations, tags))
  const ids = [...html.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id)
  expect(ids).toEqual([...new Set(ids)])
  for (const [, target] of html.matchAll(/href="#([^"]+)"/g)) expect(ids).toContain(target)
})

test('escapes text from the document', async () => {
  const hostile = '<img src=x onerror="alert(1)">\'&`<b>`'
  const described = {
    type: 'object',
    description: hostile,
    properties: {
      [hostile]: { type: hostile, format: hostile, description: hostile, default: hostile },
      one: { const: hostile },
      several: { enum: [hostile] },
      pattern: { type: 'string', pattern: hostile },
      reference: { $ref: `#/components/schemas/${hostile}` },
    },
  }
  const json = (schema: object) => ({ content: { 'application/json': { schema } } })
  const failure = {
    properties: {
      defined: { const: true },
      status: { const: hostile },
      code: { const: hostile },
      message: { default: hostile },
      data: { properties: { code: { const: hostile }, [hostile]: {} } },
    },
  }
  const { html } = await render({
    info: { title: hostile, version: hostile, description: hostile },
    servers: [{ url: hostile }],
    tags: [{ name: hostile, description: hostile }],
    paths: {
      [hostile]: {
        [hostile]: {
          operationId: hostile,
          tags: [hostile],
          summary: hostile,
          description: hostile,
          'x-access': hostile,
          parameters: [{ name: hostile, in: 'query', required: true, description: hostile, schema: described }],
          requestBody: json(described),
          responses: { 200: json(described), 400: json({ oneOf: [failure] }) },
        },
      },
    },
    components: { schemas: { [hostile]: described } },
  })
  expect(html).toContain('&#60;img')
  expect(html).not.toMatch(/<img|<b>|"alert/i)
})

test('shows whether a field is required, its bounds and its default', async () => {
  const html = await renderBody({
    type: 'object',
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 100, description: 'What it is called' },
      code: { type: 'string', pattern: '^[a-z]+$' },
      limit: { type: 'integer', minimum: 1, maximum: 50, default: 20 },
      count: { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
      price: { type: 'number', minimum: 0 },
      tags: { type: 'array', maxItems: 20, items: { type: 'string', maxLength: 30 } },
    },
    required: ['name'],
  })
  expect(rowsOf(html, 'Request body')).toEqual([
    'name required string 1 to 100 characters What it is called',
    'code optional string matches ^[a-z]+$',
    'limit optional integer 1 to 50, default 20',
    'count optional integer',
    'price optional number at least 0',
    'tags optional string[] at most 20 items, each at most 30 characters',
  ])
  expect(exampleOf(html)).toEqual({ name: 'string', code: 'string', limit: 20, count: 1, price: 0, tags: ['string'] })
})

test('shows nested fields with dotted names, and components where they are used', async () => {
  const html = await renderBody(
    {
      type: 'object',
      properties: {
        owner: { $ref: '#/components/schemas/Person' },
        roles: { type: 'array', items: { $ref: '#/components/schemas/Role' } },
        people: { type: 'array', items: { $ref: '#/components/schemas/Person' } },
        labels: { type: 'object', additionalProperties: { type: 'string' } },
      },
      required: ['owner', 'roles', 'people', 'labels'],
    },
    {
      Person: {
        type: 'object',
        properties: { email: { type: 'string', format: 'email', pattern: '^.+@.+$' } },
        required: ['email'],
      },
      Role: { type: 'string', enum: ['admin', 'member'] },
    },
  )
  expect(rowsOf(html, 'Request body')).toEqual([
    'owner required Person',
    'owner.email required string (email)',
    'roles required ("admin" | "member")[]',
    'people required Person[]',
    'people[].email required string (email)',
    'labels required map of string',
  ])
  const person = { email: 'person@example.com' }
  expect(exampleOf(html)).toEqual({ owner: person, roles: ['admin'], people: [person], labels: {} })
})

test('shows nullable fields and unions', async () => {
  const html = await renderBody({
    type: 'object',
    properties: {
      until: { anyOf: [{ type: 'string', format: 'date-time' }, { type: 'null' }] },
      note: { type: ['string', 'null'] },
      kind: { const: 'a' },
      either: { oneOf: [{ type: 'object', properties: { a: { type: 'boolean' } } }, { type: 'null' }] },
      anything: {},
    },
    required: ['until', 'note', 'kind', 'either', 'anything'],
  })
  expect(rowsOf(html, 'Request body')).toEqual([
    'until required string (date-time) | null',
    'note required string | null',
    'kind required "a"',
    'either required object | null',
    'either.a optional boolean',
    'anything required any',
  ])
  expect(exampleOf(html)).toEqual({
    until: '2026-01-31T09:30:00.000Z',
    note: 'string',
    kind: 'a',
    either: { a: true },
    anything: {},
  })
})

test('stops at a recursive schema', async () => {
  const tree = { $ref: '#/components/schemas/Tree' }
  const html = await renderBody(tree, {
    Tree: { type: 'object', properties: { name: { type: 'string' }, children: { type: 'array', items: tree } } },
  })
  expect(rowsOf(html, 'Request body')).toEqual(['name optional string', 'children optional Tree[]'])
  expect(exampleOf(html)).toEqual({ name: 'string', children: [] })
})

test('lists the errors of an operation with the fields of their data', async () => {
  const { html } = await render(describeApi(operations, tags))
  const [, article = ''] = html.split('<article id="updateMember"')
  expect(rowsOf(article, 'Errors')).toEqual([
    '400 BAD_REQUEST VALIDATION_ERROR Invalid request data data.field, data.details',
    '401 UNAUTHORIZED AUTH_REQUIRED Authentication required',
    '403 FORBIDDEN ACCESS_DENIED Access denied data.reason',
    '403 ORG_CONTEXT_REQUIRED ORG_CONTEXT_REQUIRED Organization context required',
    '404 NOT_FOUND RESOURCE_NOT_FOUND Resource not found data.resource, data.resourceId',
    '500 INTERNAL_SERVER_ERROR INTERNAL_ERROR An Inlay error occurred',
  ])
})
