import { globSync } from 'node:fs'
import { join } from 'node:path'
import type { TestService } from './harness.ts'
import type { Sample, Slug, ToolSample } from './sample-helpers.ts'

/** What the `samples.ts` of a folder in `server/src` can export for the tests that cover every capability. */
interface FolderSamples {
  /** A successful request for every operation of the folder's contract. */
  operationSamples?: Record<string, Sample>
  /** Arguments for every MCP tool of the folder, by the tool's name. */
  toolSamples?: Record<string, ToolSample>
  /** Writes at least one row to every tenant table of the folder. */
  fillTables?: (app: TestService, slug: Slug) => Promise<unknown>
}

const src = join(import.meta.dirname, '../src')
const folders: FolderSamples[] = await Promise.all(
  globSync('*/*/samples.ts', { cwd: src }).map((file) => import(/* @vite-ignore */ join(src, file))),
)

export const samples: Record<string, Sample> = Object.assign({}, ...folders.map((each) => each.operationSamples))

export const toolSamples: Record<string, ToolSample> = Object.assign({}, ...folders.map((each) => each.toolSamples))

/** Writes at least one row to every tenant table. */
export async function fillTenantTables(app: TestService, slug: Slug): Promise<void> {
  for (const { fillTables } of folders) await fillTables?.(app, slug)
}

interface ToolClient {
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<object>
}

/** Calls every tool, and returns the names of those whose result differs from what their sample says. */
export async function callEveryTool(client: ToolClient): Promise<string[]> {
  const wrong: string[] = []
  for (const [name, { valid, fails = false }] of Object.entries(toolSamples)) {
    const answer = await client.callTool({ name, arguments: { ...valid[0] } })
    const isError = 'isError' in answer && answer.isError === true
    if (isError !== fails) wrong.push(name)
  }
  return wrong
}
