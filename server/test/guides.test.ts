import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { updateConfig } from '../src/identity-provider/contract.ts'
import { idpTypes, trustedIssuer } from '../src/identity-provider/issuers.ts'

const read = (file: string) => readFileSync(join(import.meta.dirname, '../..', file), 'utf8')

describe('Trust your identity provider', () => {
  const guide = read('docs/trust-your-identity-provider.md')
  const bodies = [...guide.matchAll(/\{[^{}]*"idp_type"[^{}]*\}/g)].map(([text]) => JSON.parse(text))

  test('has a request body for every vendor', () => {
    expect(new Set(bodies.map(({ idp_type }) => idp_type))).toEqual(new Set(idpTypes))
  })

  test.each(bodies)('%j is accepted in production', (body) => {
    const {
      idp_type = null,
      idp_domain = null,
      idp_issuer = null,
      allowed_audiences = null,
    } = updateConfig.body.parse(body)
    const trusted = trustedIssuer({ idp_type, idp_domain, idp_issuer, allowed_audiences }, 'production')
    expect(trusted?.issuer).toMatch(/^https:\/\//)
  })

  test('explains every step at which an ID token or a ticket can be rejected', () => {
    const sources = ['identity-provider/id-tokens.ts', 'tickets/tickets.ts'].map((file) => read(`server/src/${file}`))
    const steps = sources.flatMap((source) =>
      [...source.matchAll(/new (?:IdTokenRefused|StepFailed)\(\s*'(\w+)'/g)].map(([, step = '']) => step),
    )
    expect(steps).toContain('audience')
    const [, explained = ''] = guide.split('## What each refusal means')
    expect([...new Set(steps)].filter((step) => !explained.includes(`\`${step}\``))).toEqual([])
  })
})
