import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { createConnector, getConnector, listConnectors, updateConnector } from '../connectors/connectors.ts'
import * as contract from '../connectors/contract.ts'
import { deleteConnector } from '../consent/connector-removal.ts'

import { testConnector } from './connector-check.ts'

export const remoteToolsRoom: Room<Service> = {
  tags: {
    Connectors: 'Remote tool servers that Inlay calls on behalf of the user.',
  },
  routes: bind(contract, {
    listConnectors,
    createConnector,
    getConnector,
    updateConnector,
    deleteConnector,
    testConnector,
  }),
  tools: [],
}
