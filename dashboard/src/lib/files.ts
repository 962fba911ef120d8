/** Offers a text as a file to save. */
export function saveFile(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  URL.revokeObjectURL(url)
}

/** RFC 4180. Text that a spreadsheet would take for a formula gets an apostrophe in front. */
export function toCsv(rows: readonly Record<string, unknown>[]): string {
  const columns = Object.keys(rows[0] ?? {})
  const lines = rows.map((row) => columns.map((column) => csvCell(row[column])).join(','))
  return `${[columns.join(','), ...lines].join('\r\n')}\r\n`
}

function csvCell(value: unknown): string {
  const plain = typeof value === 'string' ? value : value === null || value === undefined ? '' : JSON.stringify(value)
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(plain) ? `'${plain}` : plain
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
