import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Extracts the schemas that the tests need from Polar's OpenAPI document, docs/openapi/2026-10.openapi.json in
 * https://github.com/polarsource/polar: node server/test/polar/extract-schemas.ts <document> <commit>
 */
const wanted = [
  ...['CheckoutCreate', 'Checkout', 'CustomerSessionCustomerExternalIDCreate', 'CustomerSession', 'Product'],
  ...['ListResource_Subscription_', 'Subscription', 'SubscriptionUpdateSeats', 'EventsIngest', 'EventsIngestResponse'],
  ...['WebhookCustomerStateChangedPayload', 'WebhookSubscriptionUpdatedPayload'],
  ...['HTTPValidationError', 'ResourceNotFound'],
]

type Schema = { [key: string]: unknown }

const [document = '', commit = ''] = process.argv.slice(2)
const { schemas } = JSON.parse(readFileSync(document, 'utf8')).components as { schemas: Record<string, Schema> }
const kept: Record<string, unknown> = {}

/** Formats that the validator doesn't know, and texts for people. */
const dropped = new Set(['description', 'title', 'examples', 'example', 'discriminator', 'deprecated'])

function simplify(value: unknown, isMap = false): unknown {
  if (Array.isArray(value)) return value.map((each) => simplify(each))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
    .filter(([key, inner]) => isMap || (!dropped.has(key) && !(key === 'default' && inner === null)))
    .map(([key, inner]) => {
      if (key === '$ref') return [key, keep(String(inner).split('/').at(-1) ?? '')]
      if (key === 'format' && !isMap) return [key, inner === 'uuid4' ? 'uuid' : inner]
      return [key, simplify(inner, key === 'properties' && !isMap)]
    })
  return Object.fromEntries(entries)
}

function keep(name: string): string {
  if (!(name in kept)) {
    kept[name] = null
    kept[name] = simplify(schemas[name])
  }
  return `#/$defs/${name}`
}

for (const name of wanted) keep(name)
const notice = `Extracted by extract-schemas.ts from docs/openapi/2026-10.openapi.json of https://github.com/polarsource/polar at ${commit}. Copyright Polar Software, Inc., licensed under the Apache License, Version 2.0, https://www.apache.org/licenses/LICENSE-2.0. Changed: only the schemas that the tests need, without texts for people.`
const sorted = Object.fromEntries(Object.entries(kept).sort(([a], [b]) => a.localeCompare(b)))
writeFileSync(join(import.meta.dirname, 'schemas.json'), `${JSON.stringify({ $comment: notice, $defs: sorted })}\n`)
