import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ClientMessage, maxChatMessageLength, ServerMessage } from '@inlay/protocol'
import { uiMessageChunkSchema } from 'ai'
import { describe, expect, test } from 'vitest'
import { runLimits } from '../src/agent/loop/work.ts'
import { updateConfig } from '../src/visitors/identity-provider/contract.ts'
import { idpTypes, trustedIssuer } from '../src/visitors/identity-provider/issuers.ts'
import { readSnippets } from './snippets.ts'

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
    const sources = ['visitors/identity-provider/id-tokens.ts', 'visitors/tickets/exchange.ts'].map((file) =>
      read(`server/src/${file}`),
    )
    const steps = sources.flatMap((source) =>
      [...source.matchAll(/new (?:IdTokenRefused|StepFailed)\(\s*'(\w+)'/g)].map(([, step = '']) => step),
    )
    expect(steps).toContain('audience')
    const [, explained = ''] = guide.split('## What each refusal means')
    expect([...new Set(steps)].filter((step) => !explained.includes(`\`${step}\``))).toEqual([])
  })
})

describe('The chat’s protocol', () => {
  const guide = read('docs/chat-protocol.md')
  const examples = readSnippets('docs/chat-protocol.md').map(({ text }) => JSON.parse(text))
  const schemas = [...ClientMessage.options, ...ServerMessage.options]
  const find = (text: string, pattern: RegExp) => new Set([...text.matchAll(pattern)].map(([, found = '']) => found))

  test('has a valid example of every message', () => {
    for (const example of examples) {
      const schema = schemas.find(({ shape }) => shape.type.value === example.type)
      expect(schema?.safeParse(example).error, JSON.stringify(example)).toBeUndefined()
    }
    const types = schemas.map(({ shape }) => shape.type.value).filter((type) => type.startsWith('chat/'))
    const shown = examples.map(({ type }) => type)
    expect(types.filter((type) => !shown.includes(type))).toEqual([])
  })

  test('has chunks that the AI SDK accepts', async () => {
    const chunks = examples.flatMap(({ chunks = [], messages = [] }) => [
      ...chunks,
      ...messages.flatMap((message: { chunks?: unknown[] }) => message.chunks ?? []),
    ])
    expect(chunks.length).toBeGreaterThan(5)
    for (const chunk of chunks) expect(await uiMessageChunkSchema().validate?.(chunk)).toMatchObject({ success: true })
  })

  test('explains every chunk', () => {
    const sources = ['agent/feeds/chunks.ts', 'agent/loop/model-step.ts', 'agent/loop/loop.ts', 'agent/loop/summary.ts']
    const types = find(sources.map((file) => read(`server/src/${file}`)).join(), /\{\s*type: '([a-z-]+)'[,\s}]/g)
    expect(types).toContain('tool-approval-request')
    const [, explained = ''] = guide.split('### Chunks')
    const ofModels = ['text', 'finish', 'none']
    expect([...types].filter((type) => !ofModels.includes(type) && !explained.includes(`\`${type}\``))).toEqual([])
  })

  test('explains every code of a refused request and of a failed run', () => {
    const files = ['create-runs.ts', 'start-runs.ts', 'answers.ts', 'run-writes.ts']
    const sources = files.map((file) => read(`server/src/agent/loop/${file}`))
    const refusals = find(sources.join(), /failure\(\d+, '(\w+)'/g)
    const failures = find(read('server/src/agent/runs/run.ts'), /^ {2}\| '([A-Z_]+)'/gm)
    expect(refusals).toContain('RUN_ACTIVE')
    expect(failures).toContain('BUDGET_REACHED')
    const [, explained = ''] = guide.split('## Errors')
    expect([...refusals, ...failures].filter((code) => !explained.includes(`\`${code}\``))).toEqual([])
  })
})

test('The agent’s guide has the limits of the program', () => {
  const [, limits = ''] = read('docs/agent.md').split('## Limits')
  const write = (value: number) => String(value).replace(/(?<=\d)(?=(\d{3})+$)/g, ' ')
  for (const row of [
    `length of a message | ${write(maxChatMessageLength)} characters`,
    `steps of a run | ${runLimits.steps} `,
    `times that a run starts, including after questions and interruptions | ${runLimits.beginnings} `,
    `working time of a run | ${runLimits.workMs / 60_000} minutes`,
    `tool calls in a step | ${runLimits.callsPerStep} `,
    `length of a reply | ${write(runLimits.outputTokens)} tokens`,
    `wait for a model that asks to wait | ${runLimits.waitMs / 1000} seconds`,
  ]) {
    expect(limits).toContain(`| ${row}`)
  }
})

describe('The risks of agents', () => {
  const guide = read('docs/security.md')
  /** A file, and the titles of tests in it that are quoted after it. */
  const named = [...guide.matchAll(/`([\w/.-]+\.test\.tsx?)`(?:: ((?:“[^”]+”[,\s]*)+))?/g)].map(
    ([, file = '', titles = '']) => ({
      file,
      titles: [...titles.matchAll(/“([^”]+)”/g)].map(([, title = '']) => title.replace(/\s+/g, ' ')),
    }),
  )

  test('are the ten of OWASP’s list, each with tests and limits', () => {
    const sections = guide.split(/^## ASI/m).slice(1)
    expect(sections.map((section) => section.slice(0, 2))).toEqual(
      Array.from({ length: 10 }, (_, n) => String(n + 1).padStart(2, '0')),
    )
    for (const section of sections) {
      expect(section).toMatch(/\nTests:\n\n- `[^`]+\.test\.tsx?`: “/)
      expect(section).toContain('**Limits.**')
    }
  })

  test.each(named)('name tests that exist in $file', ({ file, titles }) => {
    const text = existsSync(join(import.meta.dirname, '../..', file)) ? read(file) : ''
    expect(text).not.toBe('')
    expect(titles.filter((title) => !text.includes(title))).toEqual([])
  })
})
