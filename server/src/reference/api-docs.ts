import { Hono } from 'hono'
import { escapeHtml, page, pageHeaders } from '../http/pages.ts'

interface Specification {
  info: { title: string; version: string; description: string }
  servers: { url: string }[]
  tags: { name: string; description?: string }[]
  paths: Record<string, Record<string, Omit<Operation, 'method' | 'path'>>>
  components: { schemas: Record<string, Schema> }
}

interface Operation {
  method: string
  path: string
  operationId: string
  tags: string[]
  summary: string
  description?: string
  'x-access': string
  parameters?: { name: string; in: string; required: boolean; description?: string; schema: Schema }[]
  requestBody?: Content
  responses: Record<string, Content>
}

interface Content {
  /** JSON, or JSON Lines for an export. */
  content: Partial<Record<'application/json' | 'application/jsonl', { schema: Schema; example?: unknown }>>
}

interface Schema {
  $ref?: string
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  enum?: unknown[]
  const?: unknown
  default?: unknown
  examples?: unknown[]
  description?: string
  format?: string
  pattern?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
}

interface Field {
  name: string
  schema: Schema
  isRequired: boolean
}

/** The API reference as a page without scripts, rendered once. */
export function serveApiDocs(describe: () => object, publicUrl: string): Hono {
  let html: string | undefined
  return new Hono().get('/', (c) => {
    html ??= renderApiDocs(describe() as Specification, publicUrl)
    return c.body(html, 200, pageHeaders)
  })
}

function renderApiDocs({ info, servers, tags, paths, components }: Specification, publicUrl: string): string {
  const baseUrl = `${publicUrl}${servers[0]?.url ?? ''}`
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Operation => ({ ...operation, method, path })),
  )
  const groups = tags.map((tag) => ({
    ...tag,
    anchor: `tag-${tag.name.replace(/\W+/g, '-').toLowerCase()}`,
    operations: operations.filter((operation) => operation.tags.includes(tag.name)),
  }))
  const render = operationRenderer(schemaReader(components.schemas), baseUrl)
  const nav = groups.map(
    (group) => `<h2><a href="#${group.anchor}">${escapeHtml(group.name)}</a></h2>
      <ul>${group.operations.map(renderLink).join('')}</ul>`,
  )
  const sections = groups.map(
    (group) => `<section aria-labelledby="${group.anchor}"><h2 id="${group.anchor}">${escapeHtml(group.name)}</h2>
      ${prose(group.description)}${group.operations.map(render).join('')}</section>`,
  )
  const main = `<header id="content"><h1>${escapeHtml(info.title)} API <small>${escapeHtml(info.version)}</small></h1>
    ${prose(info.description)}${introduction(baseUrl)}</header>${sections.join('')}`
  const beside = `<a class="skip" href="#content">Skip the list of operations</a>
    <nav aria-label="Operations">${nav.join('')}</nav>`
  return page('API reference', main, { beside, style })
}

const introduction = (baseUrl: string) => `
  <h2>Authentication</h2>
  <p>Send an access token as a bearer token. On the server, this prints one for a member of an organization:</p>
  <pre>export TOKEN="$(npx inlay token --email you@example.com --org your-organization)"</pre>
  <p>The base URL is <code>${escapeHtml(baseUrl)}</code>. To generate a client, use the
    <a href="${escapeHtml(baseUrl)}/spec.json">OpenAPI document</a>.</p>
  <h2>Errors</h2>
  <p>Every error response is <code>{ defined, code, status, message, data }</code>. Use <code>data.code</code> to
    distinguish errors. If <code>defined</code> is false, the error isn’t specific to the operation, for example a body
    that is too large (413) or a server that is starting (503). Use <code>code</code> instead.</p>
  <h2>Retries</h2>
  <p>To safely retry a POST that creates something, send an <code>Idempotency-Key</code> header with a unique value, such
    as a UUID. For 24 hours, a request with the same key and the same input returns the first response again.</p>
  <h2>Limits</h2>
  <p>A request body can be up to 64 KiB (1 MiB for skills, 20 KiB for the ticket exchange). A JSON object can have up to
    1,000 keys and 64 levels. The server closes a connection if the client doesn’t read a response for 30 seconds.</p>`

const renderLink = ({ operationId, method }: Operation) =>
  `<li><a href="#${escapeHtml(operationId)}">${escapeHtml(operationId)}</a> ${methodTag(method)}</li>`

const accessLabels: Record<string, string> = { public: 'public', user: 'signed in', org: 'member', admin: 'admin' }

function operationRenderer(read: SchemaReader, baseUrl: string) {
  return (operation: Operation): string => {
    const { operationId, method, path, summary, parameters = [], requestBody, responses } = operation
    const id = escapeHtml(operationId)
    const access = operation['x-access']
    const body = schemaOf(requestBody)
    const { 200: success, ...failures } = responses
    const answer = schemaOf(success) ?? {}
    const parameterFields = (place: string) =>
      parameters
        .filter((parameter) => parameter.in === place)
        .map(({ name, schema, required, description }) => ({
          name,
          schema: { ...schema, ...(description && { description }) },
          isRequired: required,
        }))
    return `<article id="${id}" aria-labelledby="${id}-title">
      <h3 id="${id}-title"><a href="#${id}">${escapeHtml(summary)}</a></h3>
      <p class="call">${methodTag(method)} ${code(path)}
        <span class="badge ${escapeHtml(access)}">${escapeHtml(accessLabels[access] ?? access)}</span></p>
      <div class="shapes">
        ${prose(operation.description)}
        ${fieldTable('Path parameters', parameterFields('path'), read)}
        ${fieldTable('Query parameters', parameterFields('query'), read)}
        ${body ? fieldTable('Request body', read.fieldsOf(body), read) : ''}
        ${fieldTable('Response', read.fieldsOf(answer), read, read.typeOf(answer))}
        ${errorTable(Object.values(failures), read)}
      </div>
      <div class="examples">
        ${sample('Example request', curl(baseUrl, operation, body && (writtenExample(requestBody) ?? read.exampleOf(body))))}
        ${sample('Example response', formatJson(writtenExample(success) ?? read.exampleOf(answer)))}
      </div></article>`
  }
}

function fieldTable(title: string, fields: Field[], read: SchemaReader, type?: string): string {
  if (fields.length === 0) return ''
  const isResponse = type !== undefined
  const rows = fields.map(({ name, schema, isRequired }) => {
    const presence = isResponse ? !isRequired && 'may be absent' : isRequired ? 'required' : 'optional'
    return [
      `${code(name)}${presence ? `<small class="${presence}">${presence}</small>` : ''}`,
      `${code(read.typeOf(schema))}${note(read.boundsOf(schema))}`,
      inline(read.descriptionOf(schema)),
    ]
  })
  return table(`${title}${isResponse ? ` ${code(type)}` : ''}`, ['Name', 'Type', 'Description'], rows)
}

function errorTable(failures: Content[], read: SchemaReader): string {
  const variants = failures
    .flatMap((failure) => schemaOf(failure)?.oneOf ?? [])
    .map((variant) => read.resolve(variant).properties ?? {})
    .filter(({ defined }) => defined?.const === true)
  const rows = variants.map(({ status, code: outer, message, data }) => {
    const { code: inner, ...details } = data?.properties ?? {}
    const names = Object.keys(details).map((name) => `data.${name}`)
    return [
      escapeHtml(String(status?.const)),
      code(String(outer?.const)),
      code(String(inner?.const)),
      `${escapeHtml(String(message?.default ?? ''))}${note(names.join(', '))}`,
    ]
  })
  return table('Errors', ['Status', 'code', 'data.code', 'When'], rows)
}

/** Leaves out columns that are empty in every row. The caption and the cells are HTML. */
function table(caption: string, headings: string[], rows: string[][]): string {
  const used = headings.map((_, column) => rows.some((row) => row[column] !== ''))
  const cells = (row: string[], tag: 'th' | 'td') =>
    row.map((cell, column) => (used[column] ? `<${tag}>${cell}</${tag}>` : '')).join('')
  return `<div class="table"><table><caption>${caption}</caption>
    <thead><tr>${cells(headings, 'th')}</tr></thead>
    <tbody>${rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('')}</tbody></table></div>`
}

/** Path parameters become shell variables, because curl itself reads braces. */
function curl(
  baseUrl: string,
  { method, path, parameters = [], 'x-access': access }: Operation,
  body: unknown,
): string {
  const url = `${baseUrl}${path.replace(/\{(\w+)\}/g, (_, name: string) => `$${name.toUpperCase()}`)}`
  const query = parameters
    .filter((parameter) => parameter.in === 'query' && parameter.required)
    .map(({ name }) => `${name}=$${name.toUpperCase()}`)
    .join('&')
  return [
    `curl -X ${method.toUpperCase()} "${url}${query && `?${query}`}"`,
    ...(access === 'public' ? [] : ['-H "Authorization: Bearer $TOKEN"']),
    ...(body === undefined
      ? []
      : ['-H "Content-Type: application/json"', `-d '${formatJson(body).replaceAll("'", "'\\''")}'`]),
  ].join(' \\\n  ')
}

type SchemaReader = ReturnType<typeof schemaReader>

/** Describes schemas for the page. Components are shown where they are used. */
function schemaReader(components: Record<string, Schema>) {
  const nameOf = (ref: string) => ref.split('/').at(-1) ?? ref
  const resolve = ({ $ref, ...schema }: Schema): Schema => ($ref ? { ...components[nameOf($ref)], ...schema } : schema)
  const variantsOf = ({ anyOf = [], oneOf = [], allOf = [] }: Schema) => [...anyOf, ...oneOf, ...allOf]

  function typeOf(schema: Schema): string {
    const { type = 'any', format, items, additionalProperties, ...rest } = resolve(schema)
    const variants = variantsOf(rest)
    if (schema.$ref && (rest.properties || items || variants.length > 0)) return nameOf(schema.$ref)
    if (rest.const !== undefined) return JSON.stringify(rest.const)
    if (rest.enum) return rest.enum.map((value) => JSON.stringify(value)).join(' | ')
    if (variants.length > 0) return variants.map(typeOf).join(' | ')
    if (items)
      return typeOf(items)
        .replace(/^.* \| .*$/, '($&)')
        .concat('[]')
    if (typeof additionalProperties === 'object') return `map of ${typeOf(additionalProperties)}`
    return `${[type].flat().join(' | ')}${format ? ` (${format})` : ''}`
  }

  function boundsOf(schema: Schema): string {
    const { items, pattern, format, default: value, ...rest } = resolve(schema)
    const each = items && boundsOf(items)
    return [
      ...variantsOf(rest).map(boundsOf),
      range(rest.minimum, rest.maximum, ''),
      range(rest.minLength, rest.maxLength, ' characters'),
      range(rest.minItems, rest.maxItems, ' items'),
      each && `each ${each}`,
      // The pattern of a known format adds nothing to the format's name.
      pattern && !format && `matches ${pattern}`,
      value !== undefined && `default ${JSON.stringify(value)}`,
    ]
      .filter(Boolean)
      .join(', ')
  }

  function fieldsOf(schema: Schema, path = '', seen: readonly string[] = []): Field[] {
    if (schema.$ref && seen.includes(schema.$ref)) return []
    const above = schema.$ref ? [...seen, schema.$ref] : seen
    const { properties = {}, required = [], items, additionalProperties, ...rest } = resolve(schema)
    const own = Object.entries(properties).flatMap(([key, child]): Field[] => {
      const name = path ? `${path}.${key}` : key
      return [{ name, schema: child, isRequired: required.includes(key) }, ...fieldsOf(child, name, above)]
    })
    return [
      ...own,
      ...variantsOf(rest).flatMap((variant) => fieldsOf(variant, path, above)),
      ...(items ? fieldsOf(items, `${path}[]`, above) : []),
      ...(typeof additionalProperties === 'object' ? fieldsOf(additionalProperties, `${path}.*`, above) : []),
    ]
  }

  function exampleOf(schema: Schema, seen: readonly string[] = []): unknown {
    if (schema.$ref && seen.includes(schema.$ref)) return undefined
    const above = schema.$ref ? [...seen, schema.$ref] : seen
    const { type, format = '', properties, items, minimum, ...rest } = resolve(schema)
    const known = rest.examples?.[0] ?? rest.default ?? rest.const ?? rest.enum?.[0]
    if (known !== undefined) return known
    if (properties) {
      return Object.fromEntries(Object.entries(properties).map(([name, child]) => [name, exampleOf(child, above)]))
    }
    if (items) return [exampleOf(items, above)].filter((item) => item !== undefined)
    const [variant] = variantsOf(rest)
    if (variant) return exampleOf(variant, above)
    const examples: Record<string, unknown> = {
      string: textExamples[format] ?? 'string',
      integer: finite(minimum) ?? 1,
      number: finite(minimum) ?? 1,
      boolean: true,
      null: null,
    }
    return examples[[type].flat()[0] ?? ''] ?? {}
  }

  return {
    resolve,
    typeOf,
    boundsOf,
    fieldsOf,
    exampleOf,
    descriptionOf: (schema: Schema) => resolve(schema).description,
  }
}

const textExamples: Record<string, string> = {
  'date-time': '2026-01-31T09:30:00.000Z',
  date: '2026-01-31',
  email: 'person@example.com',
  uri: 'https://example.com',
  uuid: '0198c0de-0000-7000-8000-000000000001',
}

function range(low: number | undefined, high: number | undefined, unit: string): string {
  const [min, max] = [finite(low), finite(high)]
  if (min !== undefined && max !== undefined) return `${min} to ${max}${unit}`
  if (min !== undefined) return `at least ${min}${unit}`
  return max === undefined ? '' : `at most ${max}${unit}`
}

/** Ignores bounds that only mean "fits in a double", because every integer has them. */
const finite = (bound: number | undefined) =>
  bound !== undefined && Math.abs(bound) < Number.MAX_SAFE_INTEGER ? bound : undefined

const asJson = (content: Content | undefined) =>
  content?.content['application/json'] ?? content?.content['application/jsonl']
const schemaOf = (content: Content | undefined) => asJson(content)?.schema
const writtenExample = (content: Content | undefined) => asJson(content)?.example
const formatJson = (value: unknown) => JSON.stringify(value, null, 2)
const code = (text: string) => `<code>${escapeHtml(text)}</code>`
const note = (text: string) => (text ? `<small>${escapeHtml(text)}</small>` : '')
const inline = (text = '') => escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>')
const prose = (text?: string) => (text ? `<p>${inline(text)}</p>` : '')
const sample = (title: string, text: string) => `<h4>${title}</h4><pre>${escapeHtml(text)}</pre>`
const methodTag = (method: string) => `<b class="method ${escapeHtml(method)}">${escapeHtml(method.toUpperCase())}</b>`

const style = `
:root { --get: light-dark(#0b6e4f, #6fd6ae); --post: light-dark(#2f4fc4, #9db2ff); --patch: light-dark(#8a5300, #f0bd6a);
  --delete: light-dark(#b42318, #ff9c92); scroll-padding-top: 1rem }
body { grid-template-columns: 17rem minmax(0, 1fr); place-items: start stretch; padding: 0 }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.25rem 1.5rem; font-size: .875rem;
  background: var(--card); border-right: 1px solid var(--line) }
nav h2 { margin: 1rem 0 .25rem; font-size: .875rem } nav h2 a { color: var(--ink) }
nav ul { margin: 0; padding: 0; list-style: none } nav li { display: flex; justify-content: space-between; gap: .5rem; padding: .15rem 0 }
nav a { text-decoration: none; overflow-wrap: anywhere } nav a:hover, h3 a:hover { text-decoration: underline }
.skip { position: absolute; left: -99rem } .skip:focus { left: 1rem; top: 1rem; z-index: 1; padding: .5rem 1rem; background: var(--card) }
main { width: 100%; max-width: 84rem; margin: 0; padding: 2rem 2.5rem 6rem; background: none; border: 0 }
header { max-width: 46rem } h1 { font-size: 2rem } h1 small { font-size: 1rem } h2 { margin: 2rem 0 .5rem; font-size: 1.25rem }
section > h2 { margin-top: 3.5rem; font-size: 1.5rem }
article { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); column-gap: 2rem; margin: 1.25rem 0; padding: 1.5rem;
  background: var(--card); border: 1px solid var(--line); border-radius: 12px }
article:target { border-color: var(--accent) } article > h3, .call { grid-column: 1 / -1 }
h3 { margin: 0; font-size: 1.125rem } h3 a { color: var(--ink); text-decoration: none }
h4 { margin: .5rem 0; font-size: .875rem } article div > :last-child { margin-bottom: 0 } .examples pre { margin: 0 0 1rem; font-size: .8125rem; white-space: pre-wrap; overflow-wrap: anywhere; user-select: all }
.call { display: flex; flex-wrap: wrap; align-items: center; gap: .6rem; margin: .4rem 0 1rem; color: var(--ink) }
.call code { overflow-wrap: anywhere }
.method { font: 700 .75rem/1.6 ui-monospace, monospace } .get { color: var(--get) } .post { color: var(--post) }
.put, .patch { color: var(--patch) } .delete { color: var(--delete) }
.badge { padding: 0 .55rem; font-size: .75rem; color: var(--soft); border: 1px solid; border-radius: 1rem } .badge.admin { color: var(--accent) }
.table { overflow-x: auto; margin-bottom: 1.25rem } table { width: 100%; border-collapse: collapse; font-size: .875rem }
caption { padding: .5rem 0; font-weight: 600; text-align: left } caption code { font-weight: 400; color: var(--soft) }
th, td { padding: .45rem .75rem .45rem 0; text-align: left; vertical-align: top; border-top: 1px solid var(--line) }
td:last-child { min-width: 9rem } th { font-weight: 400; color: var(--soft) } td small { display: block } .required { color: var(--bad) }
@media (max-width: 88rem) { article { grid-template-columns: minmax(0, 1fr) } .examples { margin-top: 1.25rem } }
@media (max-width: 52rem) {
  body { display: block } nav { position: static; height: auto; border: 0; border-bottom: 1px solid var(--line) }
  nav ul { display: none } nav h2 { display: inline-block; margin: 0 1rem 0 0 } main { padding: 1.5rem 1rem 4rem } article { padding: 1rem }
}`
