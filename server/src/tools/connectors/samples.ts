import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { type OperationSamples, post, type Slug } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

const newConnector = () => ({
  name: `c-${randomUUID().slice(0, 8)}`,
  kind: 'id_jag',
  server_url: 'http://127.0.0.1:9/mcp',
  client_id: 'hub',
  client_secret: 'sample-secret',
})
const connector = (app: TestService, slug: Slug) => post(app, slug, '/connectors', newConnector())

export const fillTables = connector

export const operationSamples: OperationSamples<typeof contract> = {
  listConnectors: {},
  createConnector: { body: newConnector },
  getConnector: { prepare: connector },
  updateConnector: { prepare: connector, body: () => ({ status: 'disabled' }) },
  deleteConnector: { prepare: connector },
  testConnector: { prepare: connector },
}
