import { Writable } from 'node:stream'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { type Collector, startCollector } from '../../../test/collector.ts'
import { createLog } from '../../kernel/lib/log.ts'
import { createExporter } from './exporter.ts'
import { encodeMetrics, encodeSpan, encodeTraces } from './otlp.ts'
import { createReceiver } from './receiver.ts'
import { createSpanQueue } from './span-queue.ts'

const resource = { 'service.name': 'test' }
const at = { start: 1n, now: 2n }
const point = { attributes: {}, count: 1, sum: 1, min: 1, max: 1, bucketCounts: [1, 0] }
const metric = { name: 'm', unit: 's', description: '', bounds: [1], points: [point] }

const spanOf = (name: string, attributes = {}) =>
  encodeSpan({
    traceId: Buffer.alloc(16, 1),
    spanId: Buffer.alloc(8, 1),
    parentId: undefined,
    name,
    kind: 'internal',
    start: 1n,
    end: 2n,
    attributes,
    hasFailed: false,
  })

async function startExporter({ hasMetrics = false } = {}) {
  const collector = await startCollector()
  const lines: string[] = []
  const settings = { url: collector.url, headers: {}, serviceName: 'test', areContentsSent: false }
  const receiver = createReceiver(settings, { allowedPrivateNetworks: [] })
  const exporter = createExporter({
    receiver,
    log: createLog('info', new Writable({ write: (line, _, done) => done(void lines.push(String(line))) })),
    writeTraces: (spans) => encodeTraces(resource, spans),
    writeMetrics: () => (hasMetrics ? encodeMetrics(resource, [metric], at) : undefined),
    sendEveryMs: 10,
  })
  onTestFinished(async () => {
    collector.respond(200)
    await exporter.close()
    collector.close()
    await receiver.close()
  })
  return { collector, exporter, lines: () => lines.map((line) => JSON.parse(line)) }
}

const receivedNames = ({ spans }: Collector) => spans.map(({ name }) => name)

describe('a receiver', () => {
  test('gets spans in batches of at most 512, in order', async () => {
    const { collector, exporter } = await startExporter()
    const all = Array.from({ length: 1_200 }, (_, index) => `span ${index}`)
    for (const name of all) exporter.add(spanOf(name))
    await exporter.close()
    expect(receivedNames(collector)).toEqual(all)
    expect(collector.requests).toHaveLength(3)
  })

  test.each([
    ['asks to wait (429)', 429],
    ['is overloaded (503)', 503],
    ['breaks off', 'break'],
  ] as const)('that %s gets the spans later, once, and is logged once', async (_, answer) => {
    const { collector, exporter, lines } = await startExporter()
    collector.respond(answer)
    exporter.add(spanOf('early'))
    await vi.waitFor(() => expect(collector.requests.length).toBeGreaterThan(1))
    exporter.add(spanOf('late'))
    collector.respond(200)
    await vi.waitFor(() => expect(receivedNames(collector)).toEqual(['early', 'late']))
    await vi.waitFor(() => expect(lines().map(({ level }) => level)).toEqual(['warn', 'info']))
    expect(lines()[0]).toMatchObject({ url: collector.url, signal: 'traces' })
  })

  test.each([
    [400, 'Check OTEL_EXPORTER_OTLP_ENDPOINT'],
    [401, 'Check OTEL_EXPORTER_OTLP_HEADERS'],
    [404, 'Check OTEL_EXPORTER_OTLP_ENDPOINT'],
    [500, 'Check its log'],
  ])('that refuses the spans with %i doesn’t get them again', async (status, advice) => {
    const { collector, exporter, lines } = await startExporter()
    collector.respond(status)
    exporter.add(spanOf('refused'))
    await vi.waitFor(() => expect(lines()).toMatchObject([{ level: 'warn', status }]))
    expect(lines()[0].msg).toContain(advice)
    collector.respond(200)
    exporter.add(spanOf('accepted'))
    await vi.waitFor(() => expect(receivedNames(collector)).toEqual(['accepted']))
    await vi.waitFor(() => expect(lines().at(-1)).toMatchObject({ level: 'warn', spans: 1 }))
  })

  test('that doesn’t accept metrics gets only spans, and is logged once', async () => {
    const { collector, exporter, lines } = await startExporter({ hasMetrics: true })
    collector.respond(405, '/v1/metrics')
    exporter.add(spanOf('span'))
    await exporter.close()
    expect(receivedNames(collector)).toEqual(['span'])
    expect(lines()).toMatchObject([
      { level: 'warn', status: 405, msg: expect.stringContaining('Only traces are sent') },
    ])
  })

  test('that never answers doesn’t keep the server from closing', async () => {
    const { collector, exporter, lines } = await startExporter()
    collector.respond('stall')
    exporter.add(spanOf('lost'))
    const before = performance.now()
    await exporter.close()
    expect(performance.now() - before, 'not as long as a request may take').toBeLessThan(10_000)
    expect(lines()).toMatchObject([{ level: 'warn', spans: 1 }])
  })
})

describe('the queue', () => {
  test('holds at most 2,048 spans', () => {
    const queue = createSpanQueue()
    const accepted = Array.from({ length: 2_100 }, () => queue.add(spanOf('span'))).filter(Boolean)
    expect(accepted).toHaveLength(2_048)
    queue.remove(1)
    expect(queue.add(spanOf('span'))).toBe(true)
  })

  test('holds at most 16 MiB, and sends at most 4 MiB at once', () => {
    const queue = createSpanQueue()
    const mebibyte = Buffer.alloc(1024 * 1024)
    const accepted = Array.from({ length: 20 }, () => queue.add(mebibyte)).filter(Boolean)
    expect(accepted).toHaveLength(16)
    expect(queue.peek()).toHaveLength(4)
    queue.remove(4)
    expect(queue.add(mebibyte)).toBe(true)
  })

  test('sends a span that is larger than a batch on its own', () => {
    const queue = createSpanQueue()
    queue.add(Buffer.alloc(5 * 1024 * 1024))
    queue.add(spanOf('small'))
    expect(queue.peek()).toHaveLength(1)
  })
})
