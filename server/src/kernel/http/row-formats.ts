import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { z } from 'zod'
import type { Operation, TextDocument } from '../foundation/operation.ts'

type Row = Record<string, unknown>
interface Format {
  contentType: string
  write(rows: readonly Row[], columns: readonly string[]): string
}

const jsonLines = 'application/jsonl; charset=utf-8'

const writeLines = (rows: readonly unknown[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('')

/** The formats of a list other than JSON, by the value of `format`. */
const formats: Record<string, Format> = {
  csv: {
    contentType: 'text/csv; charset=utf-8; header=present',
    write: (rows, columns) =>
      [columns, ...rows.map((row) => columns.map((column) => row[column]))]
        .map((cells) => `${cells.map(writeCell).join(',')}\r\n`)
        .join(''),
  },
  jsonl: {
    contentType: jsonLines,
    write: writeLines,
  },
}

/** The media types of these formats. */
export const rowTypes = Object.values(formats).map(({ contentType }) => contentType.replace(/;.*/, ''))

/** RFC 4180. Spreadsheets execute cells that look like a formula, so those get a leading apostrophe. */
function writeCell(value: unknown): string {
  if (typeof value !== 'string') return String(value ?? '')
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Sends a page of a list in the requested format. Returns false if that is JSON. */
export function sendRows(
  { rows, response: shape }: Operation,
  { format = '' }: { format?: string },
  value: unknown,
  response: ServerResponse,
  headers: Record<string, string>,
): boolean {
  const chosen = formats[format]
  if (!rows || !chosen) return false
  const page = value as Record<string, Row[]>
  const list = (shape as z.ZodObject).shape[rows] as z.ZodArray<z.ZodObject>
  const body = Buffer.from(chosen.write(page[rows] as Row[], Object.keys(list.element.shape)))
  response.writeHead(200, {
    ...headers,
    'content-type': chosen.contentType,
    'cache-control': 'no-store',
    'content-length': body.length,
  })
  response.end(body)
  return true
}

/** Sends pages of lines. */
export const sendLines = (
  pages: AsyncIterable<readonly unknown[]>,
  response: ServerResponse,
  headers: Record<string, string>,
): Promise<void> => sendDocument({ contentType: jsonLines, parts: writePages(pages) }, response, headers)

async function* writePages(pages: AsyncIterable<readonly unknown[]>): AsyncGenerator<string> {
  for await (const page of pages) yield writeLines(page)
}

/**
 * Sends the parts of a document, each after the client has read the previous ones. A client that stops reading is
 * disconnected; see connections.ts.
 */
export async function sendDocument(
  { contentType, parts }: TextDocument,
  response: ServerResponse,
  headers: Record<string, string>,
): Promise<void> {
  response.writeHead(200, { ...headers, 'content-type': contentType, 'cache-control': 'no-store' })
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  if (response.req.method !== 'HEAD') {
    for await (const part of parts) {
      if (!response.write(part)) await once(response, 'drain', { signal: gone.signal }).catch(() => undefined)
      if (gone.signal.aborted) return
    }
  }
  response.end()
}
