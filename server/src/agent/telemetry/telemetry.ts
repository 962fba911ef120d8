import packageFile from '../../../package.json' with { type: 'json' }
import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Run } from '../runs/run.ts'
import { createExporter } from './exporter.ts'
import { createHistograms } from './histograms.ts'
import { names } from './names.ts'
import { encodeMetrics, encodeSpan, encodeTraces, type Span } from './otlp.ts'
import { createReceiver } from './receiver.ts'
import { type RunTrace, startRunTrace } from './run-trace.ts'

/** Reports runs, model calls and tool calls to the operator's OpenTelemetry receiver. */
export interface Telemetry {
  startRun(run: Run): RunTrace
  close(): Promise<void>
}

const sendEveryMs = 1_000

/** Returns undefined if the operator has configured no receiver. */
export function createTelemetry({ config, log }: Pick<Service, 'config' | 'log'>): Telemetry | undefined {
  if (!config.telemetry) return undefined
  const { serviceName, areContentsSent } = config.telemetry
  const receiver = createReceiver(config.telemetry, config)
  const histograms = createHistograms()
  const resource = {
    [names.serviceName]: serviceName,
    [names.serviceVersion]: packageFile.version,
    // Without it, the metrics of several nodes would be taken for those of one.
    [names.serviceInstance]: newId(),
  }
  const start = nanoseconds()
  const exporter = createExporter({
    sendEveryMs,
    receiver,
    log,
    writeTraces: (spans) => encodeTraces(resource, spans),
    writeMetrics() {
      const data = histograms.read()
      return data.length > 0 ? encodeMetrics(resource, data, { start, now: nanoseconds() }) : undefined
    },
  })
  log.info({ url: receiver.url, with_contents: areContentsSent }, 'Sending telemetry')
  const add = (span: Span) => exporter.add(encodeSpan(span))
  return {
    startRun: (run) => startRunTrace({ log, histograms, areContentsSent, add }, run),
    async close() {
      await exporter.close()
      await receiver.close()
    },
  }
}

const nanoseconds = (): bigint => BigInt(Date.now()) * 1_000_000n
