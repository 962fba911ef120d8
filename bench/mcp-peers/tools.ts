import { echo } from '../../server/src/organizations/diagnostics/tools.ts'

/** Twenty tools. The load calls the first. */
export const names = ['echo', ...Array.from({ length: 19 }, (_, index) => `echo_${index}`)]

export const { title, description, input, output, annotations } = echo

export const run = async ({ message }: { message?: unknown }) => {
  const value = { message: `Echo: ${message}` }
  return { content: [{ type: 'text' as const, text: JSON.stringify(value) }], structuredContent: value }
}
