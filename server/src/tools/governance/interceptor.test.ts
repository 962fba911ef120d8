import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { answerWith, startInterceptor } from '../../../test/interceptor.ts'
import { createLog } from '../../kernel/lib/log.ts'
import { createSafeFetch, type LookupAll, type SafeFetchOptions } from '../../kernel/net/safe-fetch.ts'
import { askInterceptor, type Question, readVerdict } from './interceptor.ts'

const apiKey = 'key-of-the-test"\\/1234'
const context = {
  mcp_call_id: 'call',
  organization_id: 'organization',
  caller_identity: 'user@example.com',
  source: { tabId: 'tab', origin: 'https://app.example.com', url: 'https://app.example.com/a', title: 'App' },
  tool: 'delete_order',
}
const question: Question = { phase: 'request', context: { ...context, arguments: { id: 1 } } }

function ask(interceptor_url: string, options: Partial<SafeFetchOptions> = {}, asking: Question = question) {
  const fetch = createSafeFetch({ allowedPrivateNetworks: ['127.0.0.0/8'], ...options })
  onTestFinished(() => fetch.close())
  const connection = { interceptor_url, interceptor_name: 'policies', api_key: apiKey }
  return askInterceptor({ fetch, log: createLog('silent') }, connection, asking)
}

const refusal = (message: unknown) => ({
  status: 'failure',
  message,
  violations: [],
  latency_ms: expect.any(Number),
})

describe('asking', () => {
  test.each<Question>([question, { phase: 'response', context: { ...context, result: { content: [] } } }])(
    'sends one JSON-RPC request about the $phase, with the key',
    async (asking) => {
      const { url, asked } = await startInterceptor()
      await ask(url, {}, asking)
      expect(asked).toEqual([
        {
          method: 'POST',
          headers: expect.objectContaining({
            authorization: `Bearer ${apiKey}`,
            'content-type': 'application/json',
          }),
          body: {
            jsonrpc: '2.0',
            id: expect.stringMatching(/^[0-9a-f-]{36}$/),
            method: 'interceptor/validate',
            params: { interceptor_name: 'policies', event: 'tools/call', ...asking },
          },
        },
      ])
    },
  )

  test.each([
    ['success', { status: 'success', violations: [] }, 'The interceptor allowed the call'],
    ['notify', { status: 'notify', violations: [] }, 'The interceptor allowed the call and reported it'],
    ['failure', { status: 'failure', violations: [] }, 'The interceptor blocked the call'],
    ['success', { status: 'success', message: 'Fine', violations: [] }, 'Fine'],
  ])('returns %s', async (status, result, message) => {
    const { url } = await startInterceptor(answerWith(result))
    expect(await ask(url)).toEqual({ status, message, violations: [], latency_ms: expect.any(Number) })
  })

  test('returns violations, and the latency in whole milliseconds', async () => {
    const violations = [
      { policy_id: 'pii', status: 'notify', details: 'An address' },
      { policy_id: 'hours', status: 'success', details: '' },
    ]
    const { url } = await startInterceptor(answerWith({ status: 'notify', message: 'Look', violations, more: 1 }))
    const answer = await ask(url)
    expect(answer).toEqual({ status: 'notify', message: 'Look', violations, latency_ms: expect.any(Number) })
    expect(Number.isInteger(answer.latency_ms)).toBe(true)
  })

  test('removes the key from the interceptor’s text, however it is escaped', async () => {
    const quoted = `You sent Bearer ${apiKey}`
    const violation = { policy_id: quoted, status: 'failure', details: `${'x'.repeat(990)}${apiKey}` }
    const { url } = await startInterceptor(({ id }, response) => {
      const result = { status: 'failure', message: quoted, violations: [violation] }
      const text = JSON.stringify({ jsonrpc: '2.0', id, result })
      response.end(text.replaceAll('/', '\\/').replaceAll('key-of', '\\u006bey-of'))
    })
    expect(await ask(url)).toMatchObject({
      message: 'You sent Bearer [API key]',
      violations: [{ policy_id: 'You sent Bearer [API key]', details: `${'x'.repeat(990)}[API key]` }],
    })
  })

  test('makes the interceptor’s text safe to store and show', async () => {
    const message = `a\u0007\n\u202eb${'x'.repeat(996)}😀 and more`
    const { url } = await startInterceptor(answerWith({ status: 'success', message, violations: [] }))
    expect((await ask(url)).message).toBe(`a b${'x'.repeat(996)}\ufffd`)
  })
})

// Any failure blocks the call, with a reason that explains what to do.
describe('blocks the call on', () => {
  const failing: LookupAll = (_hostname, _options, callback) =>
    callback(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), [])

  test.each<[string, string, Partial<SafeFetchOptions>, RegExp]>([
    ['a private address', 'https://10.0.0.1/', {}, /private or reserved address.*Enter the URL of a public host/],
    [
      'plain http to a public address',
      'http://8.8.8.8/',
      {},
      /only be reached with https:\/\/.*Enter an https:\/\/ URL/,
    ],
    ['an unknown host', 'https://name.test/', { lookup: failing }, /could not be resolved.*the spelling of the host/],
  ])('%s', async (_, url, options, message) => {
    expect(await ask(url, options)).toEqual(refusal(expect.stringMatching(message)))
  })

  test('a host without TLS', async () => {
    const { url, asked } = await startInterceptor()
    const answer = await ask(url.replace('http:', 'https:'))
    expect(answer).toEqual(refusal(expect.stringMatching(/no valid TLS certificate.*Install a certificate/)))
    expect(asked).toEqual([])
  })

  test('a dropped connection', async () => {
    const { url } = await startInterceptor((_, response) => void response.destroy())
    expect(await ask(url)).toEqual(
      refusal(expect.stringMatching(/^The request to .* failed.*Check that the interceptor/)),
    )
  })

  test('a timeout', async () => {
    const { url } = await startInterceptor(() => undefined)
    const answer = await ask(url, { timeoutMs: 50 })
    expect(answer).toEqual(
      refusal(expect.stringMatching(/did not send a complete response within 50 ms.*respond faster/)),
    )
  })

  test('a response that is too large', async () => {
    const { url } = await startInterceptor((_, response) => void response.end('x'.repeat(1024 * 1024 + 1)))
    expect(await ask(url)).toEqual(refusal(expect.stringMatching(/more than 1048576 bytes.*a shorter response/)))
  })

  test.each([
    [301, 'Enter the URL that it redirects to'],
    [307, 'Enter the URL that it redirects to'],
    [401, 'Enter an API key that it accepts'],
    [403, 'Enter an API key that it accepts'],
    [404, 'Check the path of the URL'],
    [405, 'Check the path of the URL'],
    [201, 'Check its log, or try again'],
    [204, 'Check its log, or try again'],
    [500, 'Check its log, or try again'],
    [503, 'Check its log, or try again'],
  ])('HTTP %i, even with a valid body', async (status, todo) => {
    const elsewhere = await startInterceptor()
    const { url } = await startInterceptor((request, response) => {
      response.writeHead(status, { location: elsewhere.url })
      answerWith({ status: 'success', violations: [] })(request, response)
    })
    const answer = await ask(url)
    expect(answer).toEqual(
      refusal(expect.stringMatching(`^The interceptor responded with HTTP ${status}\\b.*${todo}$`)),
    )
    expect(elsewhere.asked, 'redirects are not followed').toEqual([])
  })

  test.each(['', 'OK', '{"jsonrpc":"2.0"', '<html>', '{"id":1,"id":2}', `${'['.repeat(65)}${']'.repeat(65)}`])(
    'the invalid JSON %j',
    async (text) => {
      const { url } = await startInterceptor((_, response) => void response.end(text))
      expect(await ask(url)).toEqual(refusal(expect.stringMatching(/^The interceptor’s response isn’t valid JSON: /)))
    },
  )
})

describe('readVerdict', () => {
  const wellFormed = fc.record({
    status: fc.constantFrom('success', 'notify', 'failure'),
    message: fc.string({ minLength: 1 }),
    violations: fc.array(
      fc.record({
        policy_id: fc.string(),
        status: fc.constantFrom('success', 'notify', 'failure'),
        details: fc.string(),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  })

  test('returns every valid verdict unchanged', () => {
    fc.assert(
      fc.property(wellFormed, fc.uuid(), (result, id) => {
        expect(readVerdict({ jsonrpc: '2.0', id, result }, id)).toEqual(result)
      }),
    )
  })

  test('rejects a response with a missing field or one of the wrong type, and names the field', () => {
    const wrong = fc.oneof(
      fc.constant(undefined),
      fc.jsonValue().filter((value) => typeof value !== 'string' && (typeof value !== 'object' || value === null)),
    )
    const paths = [
      'jsonrpc',
      'id',
      'result',
      'result.status',
      'result.violations',
      'result.violations.0',
      'result.violations.0.policy_id',
      'result.violations.0.status',
      'result.violations.0.details',
    ]
    fc.assert(
      fc.property(wellFormed, fc.constantFrom(...paths), wrong, (result, path, value) => {
        const answer = structuredClone({ jsonrpc: '2.0', id: 'one', result })
        const steps = path.split('.')
        const last = steps.pop() ?? ''
        // biome-ignore lint/suspicious/noExplicitAny: the value can have any shape
        const parent = steps.reduce<any>((at, step) => at[step], answer)
        parent[last] = value
        const message = expect.stringMatching(`^The interceptor’s response is invalid at ${path}: .`)
        expect(readVerdict(answer, 'one')).toEqual({ status: 'failure', message, violations: [] })
      }),
    )
  })

  test('rejects any other JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (answer) => {
        expect(readVerdict(answer, 'one')).toEqual({
          status: 'failure',
          message: expect.stringMatching(/^The interceptor/),
          violations: [],
        })
      }),
    )
  })

  const result = { status: 'success', violations: [] }
  const violation = { policy_id: 'a', status: 'notify', details: 'b' }
  test.each<[string, unknown, string]>([
    ['another id', { jsonrpc: '2.0', id: 'two', result }, 'invalid at id: it doesn’t match the request’s id'],
    ['no id', { jsonrpc: '2.0', result }, 'invalid at id: '],
    ['JSON-RPC 1.0', { jsonrpc: '1.0', id: 'one', result }, 'invalid at jsonrpc: '],
    ['no result', { jsonrpc: '2.0', id: 'one' }, 'invalid at result: '],
    ['an array', [{ jsonrpc: '2.0', id: 'one', result }], 'invalid at the top level: '],
    [
      'an unknown status',
      { jsonrpc: '2.0', id: 'one', result: { ...result, status: 'ok' } },
      'invalid at result.status: ',
    ],
    [
      'a message that is not a string',
      { jsonrpc: '2.0', id: 'one', result: { ...result, message: 1 } },
      'invalid at result.message: ',
    ],
    [
      '101 violations',
      { jsonrpc: '2.0', id: 'one', result: { ...result, violations: Array(101).fill(violation) } },
      'invalid at result.violations: ',
    ],
    [
      'an error',
      { jsonrpc: '2.0', id: null, error: { code: -32601, message: 'Method not found' } },
      'returned the JSON-RPC error -32601: Method not found',
    ],
    [
      'an error next to a result',
      { jsonrpc: '2.0', id: 'one', result, error: { code: 1, message: 'x' } },
      'error 1: x',
    ],
    ['a malformed error', { jsonrpc: '2.0', id: 'one', result, error: 'x' }, 'invalid at error: '],
  ])('rejects %s', (_, answer, message) => {
    const verdict = readVerdict(answer, 'one')
    expect(verdict).toEqual({ status: 'failure', message: expect.stringContaining(message), violations: [] })
  })

  test.each([0, 1, 100])('accepts %i violations', (count) => {
    const verdict = { status: 'notify', message: 'x', violations: Array(count).fill(violation) }
    expect(readVerdict({ jsonrpc: '2.0', id: 'one', error: null, result: verdict }, 'one')).toEqual(verdict)
  })
})
