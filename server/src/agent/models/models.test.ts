import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { APICallError } from '@ai-sdk/provider'
import { LLMock } from '@copilotkit/aimock'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { useTestService } from '../../../test/harness.ts'
import { cert, key } from '../../../test/localhost-certificate.ts'
import { type Config, readConfig } from '../../kernel/config/config.ts'
import { SafeFetchError } from '../../kernel/net/safe-fetch.ts'
import { createClient } from './clients.ts'
import { createModels } from './create-models.ts'
import { type Model, ModelFailed, type Models, type OwnModel } from './models.ts'

const secret = 'Zq3vT8nW1xK6bR0yL5dM9sH2jF7pG4cA'
const production = { INLAY_PUBLIC_URL: 'https://inlay.example.com' }

function configure(env: Record<string, string> = {}, ollamaUrl?: string): Config {
  return { ...readConfig({ INLAY_SECRET: secret, ...env }), ollamaUrl }
}

async function useModels(config = configure(), options?: { timeoutMs: number }): Promise<Models> {
  const models = await createModels({ config }, options)
  onTestFinished(() => models.close())
  return models
}

async function useServer(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function useMock(): Promise<LLMock> {
  const mock = new LLMock({ port: 0, host: '127.0.0.1' })
  await mock.start()
  onTestFinished(() => mock.stop())
  return mock
}

const ownModel = (url: string, provider: OwnModel['provider'] = 'openai_compatible'): OwnModel => ({
  provider,
  url: `${url}/v1`,
  name: 'test-model',
  key: 'organization-key',
})

function chooseOne(models: Models, own: OwnModel[] = []): Model {
  const [model, ...others] = models.choose(own)
  if (!model) throw new Error('No model was chosen')
  expect(others).toEqual([])
  return model
}

async function failureOf(models: Models, model: Model): Promise<ModelFailed> {
  const error = await models.test(model).then(
    () => new Error('The test succeeded'),
    (cause) => cause,
  )
  expect(error).toBeInstanceOf(ModelFailed)
  return error
}

describe('the installation’s model', () => {
  const [url, none, anthropic, openai] = [
    { MODEL_URL: 'http://10.0.0.5:8000/v1', MODEL_NAME: 'qwen3' },
    {},
    { ANTHROPIC_API_KEY: 'a' },
    { OPENAI_API_KEY: 'o' },
  ]
  const operator = (provider: OwnModel['provider'], name: string) => ({ source: 'operator', provider, name })
  const own = operator('openai_compatible', 'qwen3')
  const claude = operator('anthropic', 'claude-sonnet-5-5')
  const gpt = operator('openai_compatible', 'gpt-5.4-mini')
  const named = (name: string) => ({ MODEL_NAME: name })
  const demo = { source: 'demo', provider: 'demo', name: 'demo' }
  const local = { source: 'ollama', provider: 'openai_compatible', name: 'llama3.2:latest' }

  const table: [string, Record<string, string>, boolean, object | null, string][] = [
    ['a URL', url, false, own, 'MODEL_URL is set, to 10.0.0.5:8000.'],
    ['a URL and a key', { ...url, MODEL_KEY: 'k' }, false, own, 'MODEL_URL is set, to 10.0.0.5:8000.'],
    ['a URL and Ollama', url, true, own, 'MODEL_URL is set, to 10.0.0.5:8000.'],
    ['a URL before both keys', { ...url, ...anthropic, ...openai }, false, own, 'MODEL_URL is set, to 10.0.0.5:8000.'],
    ['Anthropic', anthropic, false, claude, 'ANTHROPIC_API_KEY is set, so requests go to api.anthropic.com.'],
    ['Anthropic and Ollama', anthropic, true, claude, 'ANTHROPIC_API_KEY is set, so requests go to api.anthropic.com.'],
    [
      'Anthropic before OpenAI',
      { ...anthropic, ...openai },
      false,
      claude,
      'ANTHROPIC_API_KEY is set, so requests go to api.anthropic.com.',
    ],
    [
      'Anthropic with a name',
      { ...anthropic, ...named('claude-x') },
      false,
      operator('anthropic', 'claude-x'),
      'ANTHROPIC_API_KEY is set, so requests go to api.anthropic.com.',
    ],
    ['OpenAI', openai, false, gpt, 'OPENAI_API_KEY is set, so requests go to api.openai.com.'],
    ['OpenAI and Ollama', openai, true, gpt, 'OPENAI_API_KEY is set, so requests go to api.openai.com.'],
    [
      'OpenAI with a name',
      { ...openai, ...named('gpt-x') },
      false,
      operator('openai_compatible', 'gpt-x'),
      'OPENAI_API_KEY is set, so requests go to api.openai.com.',
    ],
    ['nothing', none, false, demo, 'No model is configured, and no Ollama runs at OLLAMA.'],
    ['Ollama', none, true, local, 'Ollama runs at OLLAMA; this is its first model.'],
  ]
  const modes = [
    ['development', {}],
    ['production', production],
  ] as const
  const cases = modes.flatMap(([mode, env]) =>
    table.map(([title, settings, hasOllama, expected, reason]) => {
      const isUnset = mode === 'production' && Object.keys(settings).length === 0
      return isUnset
        ? ([mode, title, { ...env, ...settings }, hasOllama, null, 'No model is configured.'] as const)
        : ([mode, title, { ...env, ...settings }, hasOllama, expected, reason] as const)
    }),
  )

  test.each(cases)('in %s with %s', async (_, __, env, hasOllama, expected, reason) => {
    const tags = { models: [{ name: 'llama3.2:latest' }, { name: 'other' }] }
    const running = await useServer((_request, response) => response.end(JSON.stringify(tags)))
    const stopped = createServer().listen(0, '127.0.0.1')
    await once(stopped, 'listening')
    const free = `http://127.0.0.1:${(stopped.address() as AddressInfo).port}`
    await new Promise((resolve) => stopped.close(resolve))
    const ollamaUrl = hasOllama ? running : free
    const models = await useModels(configure(env, ollamaUrl))
    expect(models.installation()).toEqual({ model: expected, reason: reason.replace('OLLAMA', ollamaUrl) })
    expect(models.choose([]).map(({ source, provider, name }) => ({ source, provider, name }))).toEqual(
      expected ? [expected] : [],
    )
  })

  const answers: [string, RequestListener, string][] = [
    ['another program', (_, response) => response.end('<html>'), `the program at OLLAMA isn't Ollama`],
    ['another API', (_, response) => response.end('{"models": 7}'), `the program at OLLAMA isn't Ollama`],
    ['an error', (_, response) => response.writeHead(500).end('{"models": []}'), `the program at OLLAMA isn't Ollama`],
    [
      'only a model for embeddings',
      (_, response) => response.end('{"models": [{"name": "nomic-embed-text"}]}'),
      'Ollama at OLLAMA has no chat model; add one with "ollama pull"',
    ],
    ['no response', () => undefined, `Ollama at OLLAMA didn't respond within 500 ms`],
  ]
  test.each(answers)('is the demo if %s is at Ollama’s address', async (_, listener, problem) => {
    const ollamaUrl = await useServer(listener)
    const models = await useModels(configure({}, ollamaUrl))
    expect(models.installation()).toEqual({
      model: demo,
      reason: `No model is configured, and ${problem.replace('OLLAMA', ollamaUrl)}.`,
    })
  })

  test('production never asks for Ollama', () => {
    expect(readConfig({ INLAY_SECRET: secret, ...production }).ollamaUrl).toBeUndefined()
  })

  test('an organization’s own models replace it, in order', async () => {
    const models = await useModels()
    const second = { ...ownModel('https://two.example'), name: 'second' }
    const chosen = models.choose([ownModel('https://one.example', 'anthropic'), second])
    expect(chosen.map(({ language: _, ...rest }) => rest)).toEqual([
      { source: 'organization', provider: 'anthropic', name: 'test-model', url: 'https://one.example/v1' },
      { source: 'organization', provider: 'openai_compatible', name: 'second', url: 'https://two.example/v1' },
    ])
  })
})

describe.each(['openai_compatible', 'anthropic'] as const)('a test of an %s model', (provider) => {
  const usage =
    provider === 'anthropic' ? { input_tokens: 11, output_tokens: 2 } : { prompt_tokens: 11, completion_tokens: 2 }

  async function useMocked(prepare: (mock: LLMock) => void) {
    const mock = await useMock()
    prepare(mock)
    const models = await useModels()
    const own = ownModel(mock.url, provider)
    return { mock, models, model: chooseOne(models, [own]), host: new URL(mock.url).host }
  }

  test('reports the time and the tokens', async () => {
    const { mock, models, model } = await useMocked((mock) => mock.onMessage('Reply with OK', { content: 'OK', usage }))
    expect(await models.test(model)).toEqual({
      latency_ms: expect.any(Number),
      prompt_tokens: 11,
      completion_tokens: 2,
      is_estimated: false,
    })
    const { path, body } = mock.getLastRequest() ?? {}
    expect(path).toBe(provider === 'anthropic' ? '/v1/messages' : '/v1/chat/completions')
    expect(body).toMatchObject({ model: 'test-model', stream: true, max_tokens: 16 })
  })

  test('estimates the tokens if the provider reports none, and says so', async () => {
    const models = await useModels()
    const url = await useServer((_, response) => {
      response.setHeader('content-type', 'text/event-stream')
      response.end(withoutUsage[provider].map((event) => `${event}\n\n`).join(''))
    })
    expect(await models.test(chooseOne(models, [ownModel(url, provider)]))).toEqual({
      latency_ms: expect.any(Number),
      prompt_tokens: 7,
      completion_tokens: 1,
      is_estimated: true,
    })
  })

  const error = (message: string) => ({ error: { message, type: 'test_error' } })
  test.each([
    [401, 'key', "HOST rejected the key (401). Check the key in the agent's settings. HOST says: No such key"],
    [403, 'key', 'HOST doesn\'t allow this key to use the model "test-model" (403). HOST says: No such key'],
    [
      404,
      'not_found',
      'HOST doesn\'t have the model "test-model" (404). Check the spelling of the name, and that the URL ends in /v1. HOST says: No such key',
    ],
    [
      429,
      'rate_limit',
      'HOST has reached the limit of requests or credit for this key (429). Try again in 17 seconds. HOST says: No such key',
    ],
    [400, 'refused', 'HOST rejected the request (400). HOST says: No such key'],
    [500, 'provider', 'HOST has a problem of its own (500). Try again later. HOST says: No such key'],
    [503, 'provider', 'HOST has a problem of its own (503). Try again later. HOST says: No such key'],
  ])('explains a %i', async (status, reason, message) => {
    const { models, model, host } = await useMocked((mock) =>
      mock.onMessage('Reply with OK', { ...error('No such key'), status, retryAfter: 17 }),
    )
    expect(await failureOf(models, model)).toMatchObject({ reason, message: message.replaceAll('HOST', host) })
  })

  test('explains a stream that breaks off', async () => {
    const { models, model, host } = await useMocked((mock) =>
      mock.onMessage(
        'Reply with OK',
        { content: 'OK, as you wish' },
        { truncateAfterChunks: 2, latency: 1, chunkSize: 2 },
      ),
    )
    const { reason, message } = await failureOf(models, model)
    expect(['connection', 'response']).toContain(reason)
    expect(message).toContain(host)
  })

  test('explains an error inside a stream', async () => {
    const models = await useModels()
    const event =
      provider === 'anthropic'
        ? 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Too busy"}}'
        : 'data: {"error":{"message":"Too busy","type":"server_error"}}'
    const url = await useServer((_, response) => {
      response.setHeader('content-type', 'text/event-stream')
      response.end(`${withoutUsage[provider][0]}\n\n${event}\n\n`)
    })
    const { reason, message } = await failureOf(models, chooseOne(models, [ownModel(url, provider)]))
    expect(reason).toBe(provider === 'anthropic' ? 'provider' : 'response')
    expect(message).toContain(`${new URL(url).host} says: Too busy`)
  })

  test('explains a stream that ends too early', async () => {
    const models = await useModels()
    const url = await useServer((_, response) => {
      response.setHeader('content-type', 'text/event-stream')
      response.end(`${withoutUsage[provider][0]}\n\n`)
    })
    expect(await failureOf(models, chooseOne(models, [ownModel(url, provider)]))).toMatchObject({ reason: 'response' })
  })

  test.each([
    ['a page', 200, '<!doctype html><title>Welcome</title>', 'response'],
    ['invalid events', 200, 'data: {"a"\n\n', 'response'],
    ['nothing', 200, '', 'response'],
    ['an error page', 502, '<!doctype html><title>Bad gateway</title>', 'provider'],
    ['a redirect', 302, '', 'redirect'],
  ])('explains %s instead of a response, without quoting it', async (_, status, body, reason) => {
    const models = await useModels()
    const url = await useServer((_request, response) => {
      response.writeHead(status, { location: '/elsewhere', 'content-type': 'text/event-stream' }).end(body)
    })
    const failure = await failureOf(models, chooseOne(models, [ownModel(url, provider)]))
    expect(failure.reason).toBe(reason)
    expect(failure.message).not.toMatch(/Welcome|Bad gateway/)
  })

  test('gives up after its time limit, before and during the response', async () => {
    const models = await useModels(configure(), { timeoutMs: 50 })
    for (const listener of [
      () => undefined,
      (_: IncomingMessage, response: Parameters<RequestListener>[1]) => {
        response.setHeader('content-type', 'text/event-stream')
        response.write(`${withoutUsage[provider][0]}\n\n`)
      },
    ]) {
      const model = chooseOne(models, [ownModel(await useServer(listener), provider)])
      expect(await failureOf(models, model)).toMatchObject({
        reason: 'timeout',
        message: expect.stringContaining("didn't complete its response in time"),
      })
    }
  })

  test('sends the organization’s key, and never the operator’s', async () => {
    vi.stubEnv('ANTHROPIC_API_KEY', 'operator-key')
    vi.stubEnv('ANTHROPIC_BASE_URL', 'https://operator.example/v1')
    vi.stubEnv('OPENAI_API_KEY', 'operator-key')
    onTestFinished(() => void vi.unstubAllEnvs())
    const seen: string[] = []
    const url = await useServer((request, response) => {
      seen.push(JSON.stringify(request.rawHeaders))
      response.writeHead(401).end()
    })
    for (const operator of [
      { ANTHROPIC_API_KEY: 'operator-key' },
      { OPENAI_API_KEY: 'operator-key' },
      { MODEL_URL: `${url}/v1`, MODEL_NAME: 'm', MODEL_KEY: 'operator-key' },
    ]) {
      const models = await useModels(configure(operator))
      for (const key of ['organization-key', '']) {
        await failureOf(models, chooseOne(models, [{ ...ownModel(url, provider), key }]))
      }
    }
    expect(seen).toHaveLength(6)
    expect(seen.filter((headers) => headers.includes('organization-key'))).toHaveLength(3)
    expect(seen.filter((headers) => headers.includes('operator-key'))).toEqual([])
  })

  test('removes a key that the provider repeats', async () => {
    const { models, model, host } = await useMocked((mock) =>
      mock.onMessage('Reply with OK', { ...error('Wrong key: organization-key\u202E!'), status: 401 }),
    )
    const { message } = await failureOf(models, model)
    expect(message).toContain(`${host} says: Wrong key: [removed]!`)
  })
})

/** Complete responses of the two APIs, without token counts. The first event alone is incomplete. */
const withoutUsage = {
  openai_compatible: [
    'data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":"OK"}}]}',
    'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    'data: [DONE]',
  ],
  anthropic: [
    'event: message_start\ndata: {"type":"message_start","message":{"id":"1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":0,"output_tokens":0}}}',
    'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"OK"}}',
    'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}',
    'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":0}}',
    'event: message_stop\ndata: {"type":"message_stop"}',
  ],
}

describe('addresses', () => {
  const answer: RequestListener = (_, response) => {
    response.setHeader('content-type', 'text/event-stream')
    response.end(withoutUsage.openai_compatible.map((event) => `${event}\n\n`).join(''))
  }

  test('an organization’s model can’t be in a private network', async () => {
    const models = await useModels(configure({ INLAY_ALLOWED_PRIVATE_NETWORKS: '192.168.7.0/24' }))
    const url = await useServer(() => expect.unreachable('No request arrives'))
    for (const address of [url, 'https://10.0.0.1', 'http://169.254.169.254', 'https://[::1]']) {
      const failure = await failureOf(models, chooseOne(models, [ownModel(address)]))
      expect(failure.reason).toBe('blocked_address')
      expect(failure.message).toMatch(/private or reserved address.*INLAY_ALLOWED_PRIVATE_NETWORKS/)
    }
  })

  test('unless the operator allows that network', async () => {
    const models = await useModels(configure({ INLAY_ALLOWED_PRIVATE_NETWORKS: '127.0.0.0/8' }))
    const model = chooseOne(models, [ownModel(await useServer(answer))])
    expect(await models.test(model)).toMatchObject({ completion_tokens: 1 })
  })

  test('an organization’s model needs https in production, even in an allowed network', async () => {
    const models = await useModels(configure({ ...production, INLAY_ALLOWED_PRIVATE_NETWORKS: '127.0.0.0/8' }))
    const url = await useServer(() => expect.unreachable('No request arrives'))
    const failure = await failureOf(models, chooseOne(models, [ownModel(url)]))
    expect(failure).toMatchObject({
      reason: 'blocked_address',
      message: expect.stringContaining('only be reached with https://'),
    })
  })

  test('the operator’s model may be on this computer, in production too', async () => {
    const keys: (string | undefined)[] = []
    const url = await useServer((request, response) => {
      keys.push(request.headers.authorization)
      answer(request, response)
    })
    const env = { ...production, MODEL_URL: `${url}/v1`, MODEL_NAME: 'm' }
    for (const key of [{}, { MODEL_KEY: 'operator-key' }]) {
      const models = await useModels(configure({ ...env, ...key }))
      expect(await models.test(chooseOne(models))).toMatchObject({ is_estimated: true })
    }
    expect(keys).toEqual([undefined, 'Bearer operator-key'])
  })

  test('the operator’s key isn’t sent to the internet in plain text', async () => {
    const models = await useModels(configure({ MODEL_URL: 'http://1.1.1.1/v1', MODEL_NAME: 'm', MODEL_KEY: 'k' }))
    expect(await failureOf(models, chooseOne(models))).toMatchObject({
      reason: 'blocked_address',
      message: '1.1.1.1 can only be reached with https://, not http://. Check MODEL_URL.',
    })
  })

  test.each([
    [{}, 'HOST requires a key (401). Set MODEL_KEY.'],
    [{ MODEL_KEY: 'operator-key' }, 'HOST rejected the key (401). Check MODEL_KEY.'],
  ])('a 401 names the setting to change, with %j', async (env, message) => {
    const url = await useServer((_, response) => response.writeHead(401).end())
    const models = await useModels(configure({ MODEL_URL: `${url}/v1`, MODEL_NAME: 'm', ...env }))
    expect((await failureOf(models, chooseOne(models))).message).toBe(message.replace('HOST', new URL(url).host))
  })

  test.each([
    ['ANTHROPIC_API_KEY', 401, 'api.anthropic.com rejected the key (401). Check ANTHROPIC_API_KEY.'],
    [
      'OPENAI_API_KEY',
      302,
      "api.openai.com redirects to another address (302). Check this server's DNS and internet access.",
    ],
  ])('with %s, a %i says what to check', async (setting, statusCode, message) => {
    const models = await useModels(configure({ [setting]: 'operator-key' }))
    const refusal = new APICallError({ message: '', url: '', requestBodyValues: {}, statusCode })
    expect(models.explain(refusal, chooseOne(models)).message).toBe(message)
  })

  test('a provider that can’t be reached doesn’t make an operator look for a URL', async () => {
    const models = await useModels(configure({ ANTHROPIC_API_KEY: 'operator-key' }))
    const failure = new SafeFetchError('connection', 'Could not connect to api.anthropic.com')
    expect(models.explain(failure, chooseOne(models)).message).toBe(
      "Could not connect to api.anthropic.com. Check this server's DNS and internet access.",
    )
  })

  test('an untrusted certificate is explained', async () => {
    const server = createHttpsServer({ key, cert }, answer).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const models = await useModels()
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
    expect(await failureOf(models, chooseOne(models, [ownModel(url)]))).toMatchObject({
      reason: 'tls',
      message: expect.stringContaining('has no valid TLS certificate'),
    })
  })

  test('a server that doesn’t run is explained', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await new Promise((resolve) => server.close(resolve))
    const models = await useModels(configure({ MODEL_URL: `http://127.0.0.1:${port}/v1`, MODEL_NAME: 'm' }))
    expect(await failureOf(models, chooseOne(models))).toMatchObject({
      reason: 'connection',
      message: expect.stringMatching(/Check that the server runs\. Check MODEL_URL\.$/),
    })
  })
})

test('OpenAI gets the limit of tokens under its newer name, and others under the common one', async () => {
  const bodies: Record<string, unknown>[] = []
  const fetch: typeof globalThis.fetch = async (_, init) => {
    bodies.push(JSON.parse(String(init?.body)))
    return new Response(null, { status: 500 })
  }
  for (const url of ['https://api.openai.com/v1', 'https://models.example/v1']) {
    const language = createClient({ provider: 'openai_compatible', url, name: 'm', key: 'k' }, fetch)
    const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'Hi' }] }]
    await expect(language.doStream({ prompt, maxOutputTokens: 5 })).rejects.toThrow()
  }
  expect(bodies.map(({ max_tokens, max_completion_tokens }) => [max_tokens, max_completion_tokens])).toEqual([
    [undefined, 5],
    [5, undefined],
  ])
  expect(bodies[0]).toMatchObject({ stream: true, stream_options: { include_usage: true } })
})

test('the service offers the model, and a logged failure contains no key', async () => {
  const url = await useServer((request, response) => {
    const message = `Wrong key: ${request.headers.authorization}`
    response.writeHead(401, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { message } }))
  })
  const env = { MODEL_URL: `${url}/v1`, MODEL_NAME: 'tiny', MODEL_KEY: 'operator-key' }
  const { service, logged } = await useTestService(env)
  expect(service.models.installation()).toMatchObject({ model: { source: 'operator', name: 'tiny' } })
  const failure = await failureOf(service.models, chooseOne(service.models))
  service.log.error({ err: failure }, 'the test failed')
  expect(logged()).toContain('rejected the key (401)')
  expect(logged()).not.toContain('operator-key')
})

test('the demo model passes the test', async () => {
  const models = await useModels()
  expect(await models.test(chooseOne(models))).toEqual({
    latency_ms: expect.any(Number),
    prompt_tokens: 7,
    completion_tokens: 1,
    is_estimated: false,
  })
})
