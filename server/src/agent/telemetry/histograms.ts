import { metricNames, names } from './names.ts'
import type { Attributes, HistogramData, HistogramPoint } from './otlp.ts'

type Metric = keyof typeof metricNames

export interface Histograms {
  record(metric: Metric, value: number, attributes: Attributes): void
  /** All values since the beginning. */
  read(): HistogramData[]
}

/** Combinations of attributes per metric. Organizations choose the names of their models, so there may be many. */
const mostPoints = 1_000

export function createHistograms(): Histograms {
  const points: Record<Metric, Map<string, HistogramPoint>> = { tokens: new Map(), duration: new Map() }

  function findPoint(metric: Metric, attributes: Attributes): HistogramPoint {
    const key = JSON.stringify(attributes)
    const known = points[metric].get(key)
    if (known) return known
    if (points[metric].size >= mostPoints && !(names.overflow in attributes)) {
      return findPoint(metric, { [names.overflow]: true })
    }
    const bucketCounts = [...metricNames[metric].bounds, Number.POSITIVE_INFINITY].map(() => 0)
    const point = {
      attributes,
      count: 0,
      sum: 0,
      min: Number.POSITIVE_INFINITY,
      max: Number.NEGATIVE_INFINITY,
      bucketCounts,
    }
    points[metric].set(key, point)
    return point
  }

  return {
    record(metric, value, attributes) {
      const point = findPoint(metric, attributes)
      const index = metricNames[metric].bounds.findIndex((bound) => value <= bound)
      const bucket = index === -1 ? point.bucketCounts.length - 1 : index
      point.bucketCounts[bucket] = (point.bucketCounts[bucket] ?? 0) + 1
      point.count += 1
      point.sum += value
      point.min = Math.min(point.min, value)
      point.max = Math.max(point.max, value)
    },
    read: () =>
      Object.entries(metricNames)
        .map(([metric, described]) => ({ ...described, points: [...points[metric as Metric].values()] }))
        .filter(({ points }) => points.length > 0),
  }
}
